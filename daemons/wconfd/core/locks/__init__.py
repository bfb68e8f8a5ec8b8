"""The lock table: holders, pending requests, the order of grants, and its bytes on disk."""
