"""Reading the logs of the daemons."""
