"""The procedures, by noun."""
