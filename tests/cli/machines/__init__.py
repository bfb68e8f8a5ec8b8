"""Tests: machines."""
