"""What is told of jobs, to whom, and in which form."""
