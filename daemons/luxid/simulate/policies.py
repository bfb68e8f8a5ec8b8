"""The policies that are compared: settings of the queue's core, and whether priorities count."""

from collections.abc import Sequence

import attrs

from daemons.luxid.core.choice.weights import WeightRules


@attrs.frozen
class Policy:
    name: str
    weights: WeightRules
    # False: all jobs have the same priority, in the queue and for locks
    has_priorities: bool = True


FIRST_COME = Policy("first come", WeightRules(is_enabled=False), has_priorities=False)
PRIORITY = Policy("priority", WeightRules(is_enabled=False))


def predictive(ticks: int, defaults: WeightRules) -> Policy:
    """A policy whose weights fade within K ticks; base and tick are the defaults'."""
    rules = WeightRules(base=defaults.base, tick_s=defaults.tick_s, ticks=ticks)
    return Policy(f"predictive K={ticks}", rules)


def policies(ticks: Sequence[int], defaults: WeightRules) -> tuple[Policy, ...]:
    """First come, priority alone, and prediction with each of these K."""
    return (FIRST_COME, PRIORITY, *(predictive(each, defaults) for each in dict.fromkeys(ticks)))
