"""Tests: queue."""
