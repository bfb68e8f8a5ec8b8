"""Pages of programs, verbs and daemons, and what they share."""
