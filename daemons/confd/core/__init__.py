"""What a datagram is answered with; no I/O, no clock."""
