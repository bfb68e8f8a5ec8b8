"""Tests: copies."""
