"""The processes of jobs: started, asked, killed, and known to be gone."""
