"""What other nodes lack of the queue."""
