"""What jobs keep on disk: their files, logs and waits."""
