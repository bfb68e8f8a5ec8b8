"""Unit tests of `common.queue`."""
