"""Tests: the history of ended jobs."""
