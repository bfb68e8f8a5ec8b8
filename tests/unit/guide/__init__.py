"""The runner of the guide, without rooms."""
