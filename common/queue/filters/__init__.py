"""Job filters: their rules, predicates and actions, and what they do to the queue."""
