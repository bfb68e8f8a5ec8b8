"""Schedules: the methods about them, and what runs them."""
