"""Commands of jobs: started, supervised, limited and ended."""
