"""Asks node daemons what only they know, for queries."""
