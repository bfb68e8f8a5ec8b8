"""Tests: wconfd."""
