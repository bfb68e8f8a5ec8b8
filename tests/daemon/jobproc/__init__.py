"""Tests: the fork server and its job processes, real ones."""
