"""The policies that are compared: settings of the queue's core, and whether priorities count."""

from collections.abc import Sequence

import attrs

from daemons.luxid.core.choice.weights import WeightRules


@attrs.frozen
class Policy:
    name: str
    weights: WeightRules
    # False: all jobs have one priority, in the queue and before locks
    has_priorities: bool = True


FIRST_COME = Policy("first come", WeightRules(is_enabled=False), has_priorities=False)
PRIORITY = Policy("priority", WeightRules(is_enabled=False))


def predictive(ticks: int, defaults: WeightRules) -> Policy:
    """Weights fade within so many ticks (K); base and tick are those given."""
    rules = WeightRules(base=defaults.base, tick_s=defaults.tick_s, ticks=ticks)
    return Policy(f"predictive K={ticks}", rules)


def policies(ticks: Sequence[int], defaults: WeightRules) -> tuple[Policy, ...]:
    """First come, priority alone, and prediction with each of these K."""
    return (FIRST_COME, PRIORITY, *(predictive(each, defaults) for each in dict.fromkeys(ticks)))
