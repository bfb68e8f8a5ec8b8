"""Why jobs wait, for the screen."""
