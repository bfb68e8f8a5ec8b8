"""Tests: supervisor."""
