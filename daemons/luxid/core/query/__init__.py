"""Queries: which fields jobs, locks and the objects of the cluster have, and rows of them."""
