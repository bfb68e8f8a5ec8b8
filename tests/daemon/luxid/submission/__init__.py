"""Tests: submission."""
