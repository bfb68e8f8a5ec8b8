"""Three typical loads, drawn from a seed: the same seed gives the same trace.

Jobs come in bursts, as users submit many at once: a burst has 1 to 80 jobs. The pauses between bursts are such that
the work alone, without locks, would take about nine tenths of 50 slots.
"""

import random
from collections.abc import Callable, Iterator
from typing import Final, Literal, assert_never

from common.locks import BGL, Lock, LockLevel, LockMode, group_lock, member_lock
from daemons.luxid.simulate.trace import TraceJob, in_order

_SLOTS: Final = 50
_USE: Final = 0.9
_BURST: Final = 80
_MEAN_S: Final = 60.0
_NODES: Final = 40
_INSTANCES: Final = 400
_HOT: Final = 4
_SHARED, _EXCLUSIVE = LockMode.SHARED, LockMode.EXCLUSIVE

_Work = Literal["instance", "move", "maintenance", "verify", "cluster"]
_WORKS: Final[tuple[_Work, ...]] = ("instance", "move", "maintenance", "verify", "cluster")
Draw = Callable[[random.Random], dict[Lock, LockMode]]


def generate(kind: str, count: int, seed: int) -> tuple[TraceJob, ...]:
    """Generate jobs of a load.

    Args:
        kind: one of `KINDS`.
    """
    draw = random.Random(f"{kind} {seed}")
    return in_order(_jobs(draw, KINDS[kind], count))


def _jobs(draw: random.Random, locks: Draw, count: int) -> Iterator[TraceJob]:
    at_s, left_in_burst = 0.0, 0
    for _ in range(count):
        if not left_in_burst:
            left_in_burst = draw.randint(1, _BURST)
            at_s += draw.expovariate(1.0) * left_in_burst * _MEAN_S / (_SLOTS * _USE)
        left_in_burst -= 1
        duration_s = draw.expovariate(1 / _MEAN_S)
        priority = draw.choices((-10, 0, 10), (10, 75, 15))[0]
        yield TraceJob(round(at_s, 3), round(duration_s, 3), locks(draw), priority)


def _mixed(draw: random.Random) -> dict[Lock, LockMode]:
    """A fleet's day: mostly single instances, some whole nodes, sometimes all of it."""
    node, instance = _node(draw.randrange(_NODES)), _instance(draw.randrange(_INSTANCES))
    work = draw.choices(_WORKS, (700, 200, 80, 18, 2))[0]
    match work:
        case "instance":
            return {instance: _EXCLUSIVE, node: _SHARED}
        case "move":
            return {instance: _EXCLUSIVE, node: _EXCLUSIVE, _node(draw.randrange(_NODES)): _EXCLUSIVE}
        case "maintenance":
            return {node: _EXCLUSIVE}
        case "verify":
            return {group_lock(LockLevel.NODE): _SHARED}
        case "cluster":
            return {BGL: _EXCLUSIVE}
        case _:
            assert_never(work)


def _hotspot(draw: random.Random) -> dict[Lock, LockMode]:
    """A tenth of the jobs wants one of a few nodes exclusively; the others have hardly anything in common."""
    if draw.random() < 0.1:
        return {_node(draw.randrange(_HOT)): _EXCLUSIVE}
    return {_instance(draw.randrange(_INSTANCES)): _EXCLUSIVE, _node(draw.randrange(_HOT, _NODES)): _SHARED}


def _independent(draw: random.Random) -> dict[Lock, LockMode]:
    """Every job has an instance of its own."""
    return {_instance(draw.getrandbits(64)): _EXCLUSIVE}


KINDS: Final[dict[str, Draw]] = {"mixed": _mixed, "hotspot": _hotspot, "independent": _independent}


def _node(number: int) -> Lock:
    return member_lock(LockLevel.NODE, f"node{number}")


def _instance(number: int) -> Lock:
    return member_lock(LockLevel.INSTANCE, f"instance{number}")
