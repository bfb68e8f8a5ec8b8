"""Unit tests of `common.system`."""
