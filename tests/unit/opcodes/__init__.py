"""Tests: opcodes."""
