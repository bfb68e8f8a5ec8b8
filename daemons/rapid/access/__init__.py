"""Who calls rapid, and what that caller may do: passwords, tokens, the verdict for each call."""
