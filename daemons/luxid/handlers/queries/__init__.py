"""Queries, and their replies in rows."""
