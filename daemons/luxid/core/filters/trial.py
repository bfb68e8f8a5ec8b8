"""For which jobs a filter rule would be, before it is set.

Source: filters design, "When a filter rule applies"; luxid.md 6.2.
"""

from collections.abc import Iterable
from typing import Self

import attrs

from common.objects.filter import FilterRule
from common.queue.filters.actions import ActionKind
from common.queue.filters.rules import CompiledRule, compile_chain
from common.queue.jobs import Job


@attrs.frozen
class Trial:
    """A rule at its place in the chain. Make one by `of`."""

    _rule: CompiledRule
    # rules that are asked earlier and may apply
    _earlier: tuple[CompiledRule, ...]

    @classmethod
    def of(cls, rule: FilterRule, rules: Iterable[FilterRule]) -> Self:
        """Try `rule` among the rules there are, one of which it replaces if that has its uuid.

        Raises: InvalidRequest: as `compile_chain`.
        """
        chain = compile_chain([*(each for each in rules if each.uuid != rule.uuid), rule])
        place = next(place for place, each in enumerate(chain) if each.rule is rule)
        earlier = (each for each in chain[:place] if each.action.kind is not ActionKind.CONTINUE)
        return cls(chain[place], tuple(earlier))

    def is_for(self, job: Job) -> bool:
        """Whether the rule matches the job, and no earlier one applies to it."""
        return self._rule.matches(job) and not any(each.matches(job) for each in self._earlier)
