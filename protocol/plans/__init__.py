"""Plans: files with jobs to submit, as YAML or JSON, and where in them an error is."""
