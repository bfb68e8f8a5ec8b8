"""Ended jobs as traces for OpenTelemetry: their spans, how far they were exported, and the way to a collector."""
