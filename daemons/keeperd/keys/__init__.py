"""What keeperd reads and writes in etcd."""
