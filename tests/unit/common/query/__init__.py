"""Unit tests of `common.query`."""
