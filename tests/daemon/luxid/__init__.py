"""luxid as a process, with a real fork server."""
