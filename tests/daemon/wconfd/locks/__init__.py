"""Tests: locks."""
