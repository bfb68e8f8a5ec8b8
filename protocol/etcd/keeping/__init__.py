"""Keep etcd from filling up: what is looked at, what is done about it, and in which words it is told."""
