"""Our own resources under /3: jobs, locks, filter rules, the queue, and what the cluster has.

Source: DESIGN section 15.
"""
