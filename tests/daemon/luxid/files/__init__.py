"""Tests: files."""
