"""Programs that make the pictures of the documentation from the running thing: `make pictures`."""
