"""Nodes of tests: daemons, doubles of daemons, and whole fleets."""
