"""The queue under a lease: commits in etcd, and copies on the candidates (`replication = "etcd"`)."""
