"""Tests: protocol, the server."""
