"""`gantry cluster`: the mastership under a lease, for operators; and all verbs of `gnt-cluster`."""
