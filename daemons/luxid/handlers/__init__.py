"""The handlers of luxid's methods, grouped by noun."""
