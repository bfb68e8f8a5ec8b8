"""What every daemon is while it runs: a program with a pid file, a readiness datagram, and a supervisor."""
