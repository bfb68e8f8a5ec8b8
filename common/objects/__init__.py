"""The objects of the cluster configuration, and the values derived from them."""
