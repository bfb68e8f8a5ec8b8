"""Pages of languages and tables."""
