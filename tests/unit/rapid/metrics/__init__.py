"""Unit tests of `daemons.rapid.metrics`."""
