"""Tests: verbs of gantry."""
