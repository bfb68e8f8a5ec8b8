"""Moves of the master, one after the other, under load."""
