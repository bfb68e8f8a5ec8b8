"""What a user says of the jobs that he submits: options, and the opcodes with them."""
