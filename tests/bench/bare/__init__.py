"""What the figures are compared with: the same without an engine."""
