"""Archives and removes what is kept no longer."""
