"""The process that keeps the daemons of an installation running, where systemd does not."""
