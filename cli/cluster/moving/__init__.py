"""`gnt-cluster master-failover`, without what it prints: the survey of the nodes, and the steps of the move."""
