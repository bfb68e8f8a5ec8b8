"""Properties: rapid."""
