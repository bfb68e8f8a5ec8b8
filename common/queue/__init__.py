"""Jobs and what belongs to them: their states, files, logs, dependencies, filters."""
