"""What stands on the pages, made from luxid's replies by pure functions."""
