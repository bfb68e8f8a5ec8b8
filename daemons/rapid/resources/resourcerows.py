"""The rows of /3.

Source: DESIGN section 15.
"""

from collections.abc import Sequence

import attrs

from daemons.rapid.calls import Call
from daemons.rapid.resources import jobcalls, jobfollowing, thingcalls
from daemons.rapid.resources.examples import EXAMPLES
from daemons.rapid.resources.operating import operatingrows
from daemons.rapid.resources.parameters import strict


def rows() -> Sequence[Call]:
    """All calls of /3 but events, health, the document and pages."""
    parts = (
        *(jobcalls.reads(), jobcalls.changes(), jobcalls.bulk_changes(), jobfollowing.rows()),
        *(
            operatingrows.job_changes(),
            operatingrows.reruns(),
            operatingrows.past(),
            operatingrows.schedules(),
            operatingrows.resources(),
        ),
        *(thingcalls.filters(), thingcalls.queue(), thingcalls.things()),
    )
    return [strict(_with_examples(call)) for part in parts for call in part]


def _with_examples(call: Call) -> Call:
    return attrs.evolve(call, examples=EXAMPLES.get((call.verb, call.path), {}))
