"""Commands that a job process runs on a node. Imported late: jobs of one machine have none."""
