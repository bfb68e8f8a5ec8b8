"""Tests: noded."""
