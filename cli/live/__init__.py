"""Jobs on the screen while they change."""
