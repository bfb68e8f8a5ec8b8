"""Ganeti's resources: `/`, `/version` and all under `/2`, for its clients.

Source: rapi.md; filters design.
"""
