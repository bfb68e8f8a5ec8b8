"""Scenarios under a real systemd: Debian in a folder, booted as a container, with our units: `make test-systemd`."""
