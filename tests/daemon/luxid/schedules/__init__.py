"""Schedules with real daemons."""
