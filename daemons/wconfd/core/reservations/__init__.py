"""Temporary reservations: what is taken although the configuration does not say so yet."""
