"""Programs of ours that are forked from a process that has loaded their code."""
