"""Tests: schedules."""
