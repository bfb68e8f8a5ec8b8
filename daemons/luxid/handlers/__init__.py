"""What luxid answers to each method, grouped by noun."""
