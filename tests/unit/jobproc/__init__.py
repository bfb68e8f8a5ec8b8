"""Tests: jobproc."""
