"""Tests: verbs of gnt-job."""
