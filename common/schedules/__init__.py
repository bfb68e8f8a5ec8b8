"""Schedules: jobs that are submitted again and again at named times."""
