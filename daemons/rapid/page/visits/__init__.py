"""Visitors of the page: sessions, and protection against forged forms."""
