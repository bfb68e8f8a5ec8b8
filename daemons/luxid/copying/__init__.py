"""Copies of the queue on the master candidates, sent by calls of their node daemons (`replication = "nodes"`)."""
