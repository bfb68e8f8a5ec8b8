"""Tests: what callers of /3 ask for."""
