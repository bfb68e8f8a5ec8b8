"""Properties of the cores of wconfd."""
