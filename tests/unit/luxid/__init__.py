"""Tests: luxid."""
