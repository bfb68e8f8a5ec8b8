"""The configuration and its changes: pure functions."""
