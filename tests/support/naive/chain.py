"""The rule that applies to a job, from the definition of a chain."""

from collections.abc import Iterable

from common.objects.filter import ActionKind
from common.queue.filters import CompiledRule
from common.queue.jobs import Job


def applying(chain: Iterable[CompiledRule], job: Job) -> CompiledRule | None:
    """Return the first matching rule whose action is not CONTINUE."""
    rules = (rule for rule in chain if rule.action.kind is not ActionKind.CONTINUE)
    return next((rule for rule in rules if rule.matches(job)), None)
