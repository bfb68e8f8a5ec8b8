"""What `gnt-cluster verify` compares."""
