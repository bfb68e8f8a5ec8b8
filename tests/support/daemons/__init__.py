"""Daemons of tests, and doubles of daemons."""
