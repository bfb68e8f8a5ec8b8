"""Verbs on the cluster of another machine: what they ask luxid goes over HTTP to its rapid.

Nothing here is imported by a command that works on this machine.
"""
