"""Nodes of an installation on several machines: certificates, epochs, places, settings."""
