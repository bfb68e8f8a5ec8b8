"""Submits the jobs that tell of others."""
