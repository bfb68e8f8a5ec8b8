"""rapid's table: the rows of all its parts.

Source: DESIGN section 15.
"""

from collections.abc import Sequence

import attrs

from common.system.program import release
from daemons.rapid import health, luxi
from daemons.rapid.calls import Call
from daemons.rapid.events import streams
from daemons.rapid.events.hub import Hub
from daemons.rapid.ganeti.ganetirows import rows as ganetis_rows
from daemons.rapid.health import HealthHandlers, index_row
from daemons.rapid.metrics import scraping
from daemons.rapid.metrics.scraping import MetricHandlers
from daemons.rapid.openapi import document
from daemons.rapid.page.pagecalls import PageCalls
from daemons.rapid.resources import (
    clusterstate,
    history,
    jobchanges,
    jobfollowing,
    joblists,
    jobsubmission,
    resourcecounts,
    schedules,
)
from daemons.rapid.resources.parameters import EXAMPLES, strict


@attrs.frozen
class RapidHandlers:
    """What handles calls, by noun."""

    health: HealthHandlers
    metrics: MetricHandlers
    page: PageCalls
    hub: Hub


def rows(to: RapidHandlers) -> Sequence[Call]:
    """The table."""
    table = [
        *health.rows(to.health),
        *scraping.rows(to.metrics),
        *ganetis_rows(),
        *resource_rows(),
        clusterstate.caller_row(),
        *streams.rows(to.hub),
        *luxi.rows(),
        *to.page.rows(),
    ]
    table += document.rows([*table, luxi.ENTRY], release())
    return [index_row(table), *table]


def resource_rows() -> Sequence[Call]:
    """The calls of /3 about jobs and what the cluster has, with the examples of their bodies."""
    parts = (joblists, jobsubmission, jobchanges, jobfollowing, history, schedules, resourcecounts, clusterstate)
    return [strict(_documented(call)) for part in parts for call in part.rows()]


def _documented(call: Call) -> Call:
    """The call with its examples, and with the name of its handler, if it has no other."""
    words = call.handler.__name__.split("_")
    name = call.name or words[0] + "".join(map(str.capitalize, words[1:]))
    return attrs.evolve(call, name=name, examples=EXAMPLES.get((call.verb, call.path), {}))
