"""The launcher: its rules."""
