"""Tests: property, the lease and what is committed under it."""
