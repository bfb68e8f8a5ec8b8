"""What filter rules and buckets do to the jobs of the queue, in numbers.

Source: filters design; luxid.md 5.5, 6.
"""

import attrs

from common.shapes import Lenient


@attrs.frozen
class RuleLoad(Lenient):
    """What one filter rule does."""

    uuid: str
    # number of jobs since luxid's start: refused when they came, or canceled in the queue
    rejected: int = 0
    # queued jobs that wait for no other job, and that the rule keeps from starting: it says PAUSE, or its limit is full
    held: int = 0
    # for RATE_LIMIT the jobs that count against the limit now, and the limit; else 0 and None
    running: int = 0
    limit: int | None = None


@attrs.frozen
class BucketLoad(Lenient):
    """What one bucket does: the jobs that share a reason `rate-limit:<name>`."""

    name: str
    # queued jobs that wait for no other job, and that name the bucket while it is full
    held: int
    running: int
    limit: int


@attrs.frozen
class RuleLoads(Lenient):
    # all rules in force
    rules: tuple[RuleLoad, ...] = ()
    # the buckets that hold back most jobs come first; those without queued and running jobs are unknown
    buckets: tuple[BucketLoad, ...] = ()
    # number of buckets, which may be more than are told
    bucket_count: int = 0
