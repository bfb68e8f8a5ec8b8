"""Tests: rapid."""
