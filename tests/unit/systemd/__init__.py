"""What decides whether scenarios under systemd can run here."""
