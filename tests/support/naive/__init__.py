"""Tests: naive."""
