"""Which ended jobs cannot pass a filter, by their state alone.

Theory. A list of what failed or still waits may look for a few jobs among a hundred thousand that succeeded. luxid
knows the state of each ended job without its file. A filter implies something about the state; where that is false for
a final state, no job in it can pass, so its jobs need not be read.

Source: `common.query.implied`.
"""

from typing import Final

from common.query.implied import implied
from common.query.predicate import Field, FilterError, compile_expression
from common.query.qlang import Expression, Not
from common.queue.jobs import FINAL, JobState

_STATUS: Final = "status"


def hopeless_states(filter: Expression | None) -> frozenset[JobState]:
    """The final states in which no job passes the filter."""
    if filter is None or _STATUS not in filter.field_names():
        return frozenset()
    cannot_pass = compile_expression(Not(implied(filter, lambda name: name == _STATUS)), _field)
    try:
        return frozenset(state for state in FINAL if cannot_pass(state))
    except FilterError:
        # who asks hears of it when the first job is judged
        return frozenset()


def _field(name: str) -> Field[JobState] | None:
    return Field(lambda state: state.value) if name == _STATUS else None
