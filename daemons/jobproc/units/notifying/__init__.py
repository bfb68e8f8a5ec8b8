"""Delivers events of jobs."""
