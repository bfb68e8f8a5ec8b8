"""Why jobs do not run, and what they waited for."""
