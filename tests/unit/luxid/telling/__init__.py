"""Tests: telling."""
