"""LUXI requests of what is read, and the forms of the replies.

Source: rapi.md 6.
"""

from typing import Any

import pytest

from common.errors import InvalidRequest, NotFound
from common.ids import JobId
from common.objects.kinds import QueryKind
from common.query.qlang import Expression
from daemons.rapid.ganeti.core import reads
from daemons.rapid.ganeti.core.reads import Arguments, names_of, objects_of, rule_of, wait_of
from protocol.luxi.queries import Query, QueryNodes, WaitForJobChange
from protocol.luxi.queue import ReplaceFilter

BULK = Arguments.of([("bulk", "1")])
NONE = Arguments()


def test_a_list_asks_for_names_and_links_to_each_in_order() -> None:
    assert reads.NODES.listing(NONE) == QueryNodes((), ("name",), False)
    assert reads.NODES.list_of(NONE, (("n2",), ("n1",))) == [
        {"id": "n1", "uri": "/2/nodes/n1"},
        {"id": "n2", "uri": "/2/nodes/n2"},
    ]
    assert reads.GROUPS.list_of(NONE, (("g",),)) == [{"name": "g", "uri": "/2/groups/g"}]


def test_a_bulk_list_has_all_fields_but_no_old_names_of_nodes() -> None:
    row = tuple(range(len(reads.NODES.fields)))

    [node] = reads.NODES.list_of(BULK, (row,))

    assert reads.NODES.listing(BULK) == QueryNodes((), reads.NODES.fields, False)
    assert list(node) == list(reads.NODES.fields)


def test_an_item_has_old_names_too_and_a_lock_is_passed_on() -> None:
    row = tuple("10.0.0.1" if field == "sip" else None for field in reads.NODES.fields)

    assert reads.NODES.item_of("n1", (row,))["secondary_ip"] == "10.0.0.1"
    assert reads.NODES.looking_up("n1", Arguments.of([("lock", "1")])) == QueryNodes(("n1",), reads.NODES.fields, True)
    with pytest.raises(NotFound):
        reads.NODES.item_of("n1", ())


def test_the_memory_of_an_instance_is_the_most_it_may_have() -> None:
    row = tuple({"maxmem": 128} if field == "beparams" else None for field in reads.INSTANCES.fields)

    [instance] = reads.INSTANCES.list_of(BULK, (row,))

    assert instance["beparams"] == {"maxmem": 128, "memory": 128}


@pytest.mark.parametrize(
    ("pairs", "has"),
    [
        ([("bulk", "1")], True),
        ([("bulk", "0")], False),
        ([("bulk", "")], False),
        ([("bulk", "0"), ("bulk", "1")], False),
    ],
)
def test_of_a_flag_the_first_value_counts_and_a_blank_one_is_none(pairs: list[tuple[str, str]], has: bool) -> None:
    assert Arguments.of(pairs).flag("bulk") is has


# body -> rule
RULES: list[tuple[Any, ReplaceFilter]] = [
    ({}, ReplaceFilter(None, 0, (), "CONTINUE", ())),
    ({"priority": 5}, ReplaceFilter(None, 5, (), "CONTINUE", ())),
    (
        {"predicates": [["jobid", [">", "id", "watermark"]]], "action": ["RATE_LIMIT", 2], "reason": [["a", "b", 1]]},
        ReplaceFilter(None, 0, (["jobid", [">", "id", "watermark"]],), ["RATE_LIMIT", 2], (["a", "b", 1],)),
    ),
]


@pytest.mark.parametrize(("body", "rule"), RULES)
def test_a_rule_has_defaults_for_what_is_not_said(body: Any, rule: ReplaceFilter) -> None:
    assert rule_of(None, body) == rule


@pytest.mark.parametrize(
    "body",
    [
        None,
        [],
        {"uuid": "x"},
        {"reason_trail": []},
        {"watermark": 1},
        {"priority": "5"},
        {"priority": True},
        {"priority": 1.5},
        {"priority": None},
        {"action": None},
        {"predicates": None},
        {"reason": None},
        {"predicates": {}},
        {"reason": "because"},
    ],
)
def test_a_malformed_rule_is_refused(body: Any) -> None:
    with pytest.raises(InvalidRequest):
        rule_of(None, body)


def test_a_wait_passes_on_what_the_client_knows() -> None:
    wait = wait_of(JobId(7), {"fields": ["status"], "previous_job_info": ["queued"], "previous_log_serial": 3})

    assert wait.call() == WaitForJobChange(JobId(7), ("status",), ["queued"], 3, 10.0)


@pytest.mark.parametrize(
    "body",
    [
        None,
        {},
        {"fields": "status"},
        {"fields": [1]},
        {"fields": ["id"], "previous_job_info": "x"},
        {"fields": ["id"], "previous_log_serial": "1"},
        {"fields": ["id"], "previous_log_serial": True},
    ],
)
def test_a_malformed_wait_is_refused(body: Any) -> None:
    with pytest.raises(InvalidRequest):
        wait_of(JobId(7), body)


def test_a_wait_for_an_archived_job_gets_its_values_and_the_newer_log_entries() -> None:
    wait = wait_of(JobId(7), {"fields": ["id"], "previous_log_serial": 1})
    old, new = [1, [0, 0], "message", "a"], [2, [0, 0], "message", "b"]

    assert wait.archived_fields == ("id", "status", "oplog")
    assert wait.reply_of_archived((7, "success", [[old], [new]])) == {"job_info": [7], "log_entries": [new]}
    assert wait.reply_of_archived((7, None, None)) is None


QUERIES: list[tuple[list[tuple[str, str]], Any, Query]] = [
    ([("fields", "id, status,\tid")], ..., Query(QueryKind.JOB, ("id", "status", "id"), None)),
    ([], {"fields": ["id"]}, Query(QueryKind.JOB, ("id",), None)),
    ([("fields", "status")], {"fields": ["id"]}, Query(QueryKind.JOB, ("id",), None)),
    ([("fields", "status")], {}, Query(QueryKind.JOB, ("status",), None)),
    (
        [],
        {"fields": ["id"], "qfilter": ["<", "id", 3], "filter": ["<", "id", 9]},
        Query(QueryKind.JOB, ("id",), Expression.from_wire(["<", "id", 3])),
    ),
    (
        [],
        {"fields": ["id"], "qfilter": None, "filter": ["<", "id", 9]},
        Query(QueryKind.JOB, ("id",), Expression.from_wire(["<", "id", 9])),
    ),
]


@pytest.mark.parametrize(("pairs", "body", "query"), QUERIES)
def test_a_query_is_in_the_body_or_the_query_string(pairs: list[tuple[str, str]], body: Any, query: Query) -> None:
    arguments = Arguments.of(pairs)
    has_body = body is not ...

    assert reads.query_of(QueryKind.JOB, arguments, body if has_body else None, has_body=has_body) == query


@pytest.mark.parametrize(
    ("body", "has_body"),
    [(None, False), (None, True), ({}, True), ({"fields": "id"}, True), ({"fields": ["id"], "qfilter": ["~~"]}, True)],
)
def test_a_malformed_query_is_refused(body: Any, has_body: bool) -> None:
    with pytest.raises(InvalidRequest):
        reads.query_of(QueryKind.JOB, NONE, body, has_body=has_body)


def test_operating_systems_are_names_with_variants() -> None:
    assert names_of([["noop", ["default", "big"]], ["plain", []], ["odd", None]]) == [
        "noop+default",
        "noop+big",
        "plain",
        "odd",
    ]


def test_parameters_of_operating_systems_are_objects() -> None:
    fields = ("name", "parameters")

    assert objects_of(fields, [["noop", [["dhcp", "whether"]]], ["plain", None]]) == [
        {"name": "noop", "parameters": [{"name": "dhcp", "description": "whether"}]},
        {"name": "plain", "parameters": None},
    ]
