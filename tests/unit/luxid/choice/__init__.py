"""Tests: choice."""
