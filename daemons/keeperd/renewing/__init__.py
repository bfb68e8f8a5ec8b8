"""The process that renews the lease, and moves the deadline on: no disk, no names, no event loop."""
