"""The handlers of wconfd's methods, grouped by noun."""
