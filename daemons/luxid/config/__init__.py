"""The configuration as luxid knows it: read, followed, and its filter rules."""
