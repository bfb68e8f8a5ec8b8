"""HTTP in tests."""
