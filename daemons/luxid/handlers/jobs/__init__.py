"""Calls about jobs: submit, change, wait, read their output, explain."""
