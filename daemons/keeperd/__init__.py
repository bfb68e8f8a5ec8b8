"""keeperd: holds the mastership under a lease in etcd, and starts and stops the daemons of the master with it."""
