"""Filters as people type them."""
