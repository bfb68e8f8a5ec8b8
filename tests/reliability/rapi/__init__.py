"""Ganeti's own client of its remote API, as Debian ships it, against rapid."""
