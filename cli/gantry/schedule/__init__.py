"""`gantry schedule`: jobs that are submitted again and again; each verb is a module."""
