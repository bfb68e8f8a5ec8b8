"""Traces that reach a collector."""
