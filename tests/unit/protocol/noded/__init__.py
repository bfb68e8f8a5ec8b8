"""Tests: protocol of node daemons."""
