"""What wconfd answers to each method, grouped by noun."""
