"""The fork server and the job processes that it starts, one for each job."""
