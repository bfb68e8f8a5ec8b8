"""What one job may cost."""
