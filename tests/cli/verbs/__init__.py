"""Tests: verbs."""
