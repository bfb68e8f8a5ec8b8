"""The schedules as luxid knows them, and the task that submits their jobs."""
