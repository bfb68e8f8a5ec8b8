"""Commands on three nodes whose daemons and job processes are killed, and whose network is cut."""
