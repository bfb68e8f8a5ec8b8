"""Unit tests of `common.metrics`."""
