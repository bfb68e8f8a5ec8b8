"""The rows of /3.

Source: DESIGN section 15.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from common.objects.kinds import QueryKind
from common.webaccess.rights import Right
from daemons.rapid.calls import Call
from daemons.rapid.resources import clusterstate, jobcalls, jobfollowing
from daemons.rapid.resources.clusterstate import (
    LISTED,
    QUERIED,
    FilterRuleCalls,
    LockCalls,
    ObjectLists,
    QueueStateCalls,
)
from daemons.rapid.resources.conditions import CONDITIONS
from daemons.rapid.resources.operating import operatingrows
from daemons.rapid.resources.parameters import EXAMPLES, strict
from protocol.luxi.queries import FieldDefinitions
from protocol.rapid.cluster import (
    Filter,
    FilterList,
    FilterPatch,
    FilterTrial,
    FilterWish,
    LimitsWish,
    LockList,
    ObjectList,
    ObjectQuery,
    ObjectRows,
    Queue,
)

# The rows of /3 for filter rules, the queue, locks, and what the cluster has.
#
# Source: DESIGN section 15.


_READ: Final = (Right.JOBS_READ,)
_RIGHT_OF: Final = {
    QueryKind.LOCK: Right.LOCKS_READ,
    QueryKind.FILTER: Right.FILTERS_READ,
    **dict.fromkeys((*LISTED, QueryKind.EXPORT), Right.CLUSTER_READ),
}


def filters() -> Sequence[Call]:
    """Calls about filter rules.

    404 also where another caller deletes the rule meanwhile, 409 where another program has changed the configuration.
    """
    rules = FilterRuleCalls()
    read, write = (Right.FILTERS_READ,), (Right.FILTERS_WRITE,)
    one = "/3/filters/{uuid}"
    return [
        Call(
            "GET",
            "/3/filters",
            rules.list_filters,
            "List the filter rules, in the order of the chain.",
            name="listFilters",
            tag="filters",
            rights=read,
            gives=FilterList,
        ),
        Call(
            "POST",
            "/3/filters",
            rules.add_filter,
            "Add a filter rule.",
            name="addFilter",
            tag="filters",
            rights=write,
            takes=FilterWish,
            gives=Filter,
            status=201,
            is_tagged=True,
            errors=(404, 409),
            changes=True,
        ),
        Call(
            "POST",
            "/3/filters/try",
            rules.try_filter,
            "Say to which waiting jobs a rule would apply.",
            name="tryFilter",
            tag="filters",
            rights=write,
            takes=FilterWish,
            gives=FilterTrial,
        ),
        Call(
            "GET",
            one,
            rules.get_filter,
            "Show a filter rule.",
            name="getFilter",
            tag="filters",
            rights=read,
            gives=Filter,
            is_tagged=True,
            errors=(404,),
        ),
        Call(
            "PUT",
            one,
            rules.replace_filter,
            "Create or replace a filter rule.",
            name="setFilter",
            tag="filters",
            rights=write,
            takes=FilterWish,
            gives=Filter,
            is_tagged=True,
            errors=(404, 409, 412),
            parameters=CONDITIONS,
            changes=True,
        ),
        Call(
            "PATCH",
            one,
            rules.patch_filter,
            "Change parts of a filter rule.",
            name="modifyFilter",
            tag="filters",
            rights=write,
            takes=FilterPatch,
            merges=True,
            gives=Filter,
            is_tagged=True,
            errors=(404, 409, 412),
            parameters=CONDITIONS,
            changes=True,
        ),
        Call(
            "DELETE",
            one,
            rules.delete_filter,
            "Delete a filter rule.",
            name="deleteFilter",
            tag="filters",
            rights=write,
            status=204,
            errors=(404, 409, 412),
            parameters=CONDITIONS,
            changes=True,
        ),
    ]


def queue() -> Sequence[Call]:
    """Calls about the queue and the cluster."""
    queue = QueueStateCalls()
    write = (Right.QUEUE_WRITE,)
    return [
        Call(
            "GET",
            "/3/queue",
            queue.get_queue,
            "Show the state of the queue.",
            name="getQueue",
            tag="queue",
            rights=_READ,
            gives=Queue,
        ),
        Call(
            "POST",
            "/3/queue/drain",
            queue.drain,
            "Refuse new jobs from now on.",
            name="drainQueue",
            tag="queue",
            rights=write,
            gives=Queue,
            changes=True,
        ),
        Call(
            "POST",
            "/3/queue/undrain",
            queue.undrain,
            "Take new jobs again.",
            name="undrainQueue",
            tag="queue",
            rights=write,
            gives=Queue,
            changes=True,
        ),
        Call(
            "PUT",
            "/3/queue/limits",
            queue.set_limits,
            "Set how many jobs may run at once.",
            name="setQueueLimits",
            tag="queue",
            rights=write,
            takes=LimitsWish,
            gives=Queue,
            errors=(409,),
            changes=True,
        ),
        Call(
            "GET",
            "/3/cluster",
            queue.get_cluster,
            "Show facts of the cluster.",
            name="getCluster",
            tag="cluster",
            rights=(Right.CLUSTER_READ,),
            gives=Mapping[str, object],
        ),
    ]


def things() -> Sequence[Call]:
    """Calls that show locks, and what the cluster has."""
    objects = ObjectLists()
    every = (*_READ, *dict.fromkeys(_RIGHT_OF.values()))
    listing = (clusterstate.FIELDS, clusterstate.FILTER)
    return [
        Call(
            "GET",
            "/3/locks",
            LockCalls().list_locks,
            "Show who holds and who waits for each lock.",
            name="listLocks",
            tag="locks",
            rights=(Right.LOCKS_READ,),
            gives=LockList,
            parameters=(clusterstate.NAMES,),
        ),
        Call(
            "GET",
            "/3/fields",
            objects.list_fields,
            "Describe the fields of jobs and of other things.",
            name="listFields",
            tag="cluster",
            rights=every,
            gives=FieldDefinitions,
            parameters=(clusterstate.WHAT, clusterstate.FIELDS),
        ),
        *(
            Call(
                "GET",
                f"/3/{kind.value}s",
                objects.list_of(kind),
                f"List {kind.value}s.",
                name=f"list{kind.value.capitalize()}s",
                tag="cluster",
                rights=(_RIGHT_OF[kind],),
                gives=ObjectList,
                parameters=listing,
            )
            for kind in LISTED
        ),
        *(
            Call(
                "POST",
                f"/3/query/{kind.value}",
                objects.query_of(kind),
                f"Query {kind.value}s as LUXI does.",
                name=f"query{kind.value.capitalize()}s",
                tag="queries",
                rights=(_RIGHT_OF[kind],),
                takes=ObjectQuery,
                gives=ObjectRows,
            )
            for kind in QUERIED
        ),
    ]


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
        *(filters(), queue(), things()),
    )
    return [strict(_with_examples(call)) for part in parts for call in part]


def _with_examples(call: Call) -> Call:
    return attrs.evolve(call, examples=EXAMPLES.get((call.verb, call.path), {}))
