"""A client of etcd for trio, over the JSON gateway of its API of version 3.4; what we need of it."""
