"""Tests: ghosts."""
