"""Tests: the web page in a real browser; `make test-browser` runs them, as they need one."""
