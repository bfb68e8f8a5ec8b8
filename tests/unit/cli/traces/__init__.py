"""Traces of jobs, made of rows and waits."""
