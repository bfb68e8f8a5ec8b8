"""The mastership under a lease in etcd: what is stored there, and what this node holds of it."""
