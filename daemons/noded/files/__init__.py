"""The files that callers may write here, and how they are written."""
