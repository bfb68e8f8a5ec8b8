"""Values of settings: read and checked."""
