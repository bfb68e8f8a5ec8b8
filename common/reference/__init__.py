"""What the code tells of itself to documents: the manual, and the description of rapid."""
