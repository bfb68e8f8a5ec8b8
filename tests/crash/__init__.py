"""Tests: crash."""
