"""Why a job does not run, and what it waited for."""
