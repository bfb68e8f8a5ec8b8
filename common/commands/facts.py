"""What a supervisor tells its job process: lines of JSON through a pipe.

Source: DESIGN section 16.
"""

from collections.abc import Iterable, Mapping
from typing import TypedDict, cast

import orjson


class Fact(TypedDict, total=False):
    """A line; each has some of these."""

    # pid of the program that was executed
    started: int
    # report of a failure to start
    not_started: str
    # wait status of the program
    ended: int
    timed_out: bool
    duration_s: float
    # as `usage_so_far` has it
    usage: Mapping[str, object]
    oom_kills: int
    # nothing is left of the program, and its locks are free
    over: bool


def write_facts(facts: Iterable[Fact]) -> bytes:
    return b"".join(orjson.dumps(fact) + b"\n" for fact in facts)


def read_fact(line: bytes) -> Fact:
    """Args: line: one that `write_facts` has made, without its end."""
    return cast(Fact, orjson.loads(line))
