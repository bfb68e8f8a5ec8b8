"""Tests: common, nodes."""
