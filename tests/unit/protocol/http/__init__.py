"""Unit tests of `protocol.http`."""
