"""Tests: objects."""
