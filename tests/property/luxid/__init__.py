"""Properties of the cores of luxid."""
