"""Files, processes, logs and signals of this machine, for all daemons."""
