"""Drawings: where each shape stands, in numbers; the templates write them as SVG."""
