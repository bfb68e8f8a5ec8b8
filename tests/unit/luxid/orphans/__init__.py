"""Tests: orphans."""
