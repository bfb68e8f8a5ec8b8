"""Send a call to many nodes, with one outcome for each."""
