"""Counted resources. Source: DESIGN section 16."""
