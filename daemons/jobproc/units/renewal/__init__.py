"""OP_CLUSTER_RENEW_CRYPTO: `renewcrypto` is the unit, over the certificates of nodes and that of the cluster."""
