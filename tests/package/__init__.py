"""The Debian package, installed, upgraded and removed in a container with a real systemd."""
