"""Tests: the programs against real daemons."""
