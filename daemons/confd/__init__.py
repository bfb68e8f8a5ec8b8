"""confd: answers signed questions about the configuration, from memory; on master candidates."""
