"""Plans: files with jobs to submit."""
