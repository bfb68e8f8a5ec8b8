"""Clocks and timers of the kernel."""
