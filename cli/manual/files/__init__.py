"""Pages of files that people write."""
