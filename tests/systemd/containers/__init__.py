"""Containers with systemd: their trees, their networks, whether they can be had here."""
