"""Tests: what commands tell of a cluster as a whole."""
