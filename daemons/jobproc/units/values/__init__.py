"""Values that several kinds of objects have: parameters, instance policies, states of hypervisors and disks. Pure."""
