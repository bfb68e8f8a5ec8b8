"""What a verb is about: jobs, locks, fields."""
