"""wconfd under a lease in etcd."""
