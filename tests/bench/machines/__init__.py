"""Tests: bench: clusters of several machines."""
