"""Keys and certificates of the cluster and its nodes."""
