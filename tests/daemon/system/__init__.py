"""Tests: system."""
