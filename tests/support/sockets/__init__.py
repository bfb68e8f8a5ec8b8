"""Tests: support: what daemons listen at, and who calls there."""
