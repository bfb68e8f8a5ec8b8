"""Tests: the master moved to another node."""
