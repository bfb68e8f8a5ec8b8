"""Logical units: what the opcodes do."""
