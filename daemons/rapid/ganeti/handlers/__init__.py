"""Handlers of Ganeti's resources, by noun."""
