"""Changes of the configuration under a lease: committed in etcd before they are written here."""
