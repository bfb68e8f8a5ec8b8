"""luxid's feed: tells subscribers of jobs, filter rules and the queue's state as they change."""
