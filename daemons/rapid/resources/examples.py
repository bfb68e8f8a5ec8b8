"""Examples of bodies for the document; a test sends each of them."""

from collections.abc import Mapping
from typing import Final

from common.queue.batch import Batch

_HELLO: Final = {"OP_ID": "OP_RUN_COMMAND", "argv": ["echo", "hello"]}

_NODES: Final = ((1, "web1"), (2, "web2"))


def _batch(place: int) -> list[list[object]]:
    """The reason trail of a job of a batch; its time is of no importance."""
    return [["gantry:batch", Batch("any-name-of-your-own", place, 2, at_most=1, failures=0).text, 0]]


# (verb, path) -> name of the example -> body
EXAMPLES: Final[Mapping[tuple[str, str], Mapping[str, object]]] = {
    ("POST", "/3/jobs"): {
        "a command": {"jobs": [{"ops": [_HELLO]}]},
        "a named command that begins later and is tried again": {
            "jobs": [
                {
                    "ops": [{**_HELLO, "retries": 3, "retry_delay": 30.0}],
                    "name": "backup-web1",
                    "labels": {"team": "web"},
                    "begin_at": 4000000000.0,
                }
            ]
        },
        "two jobs, the second after the first": {
            "jobs": [{"ops": [_HELLO]}, {"ops": [{**_HELLO, "depends": [[-1, ["success"]]]}]}]
        },
        "on two nodes, one at a time, and not on the second if the first fails": {
            "jobs": [{"ops": [{**_HELLO, "node": node, "reason": _batch(place)}]} for place, node in _NODES]
        },
    },
    ("POST", "/3/jobs/query"): {
        "by ids": {"ids": [1], "fields": ["id", "status"]},
        "failed ones, oldest first": {"filter": "status=error", "ascending": True, "limit": 10},
        "in the query language": {"filter": ["==", "status", "queued"]},
    },
    ("POST", "/3/jobs/why"): {"two jobs": {"ids": [1, 2]}},
    ("POST", "/3/jobs/waits"): {"two jobs": {"ids": [1, 2]}},
    ("POST", "/3/jobs/processes"): {"two jobs": {"ids": [1, 2]}},
    ("POST", "/3/jobs/autoarchive"): {"after a week": {"age": 604800}},
    ("POST", "/3/jobs/cancel"): {
        "list first": {"filter": "user=ada & status=queued", "dry_run": True},
        "no more than expected": {"filter": "user=ada & status=queued", "expected": 0},
    },
    ("POST", "/3/jobs/priority"): {"list first": {"filter": "status=queued", "priority": -10, "dry_run": True}},
    ("POST", "/3/jobs/archive"): {"list first": {"filter": "status=success", "dry_run": True}},
    ("POST", "/3/jobs/hold"): {"list first": {"filter": "status=queued", "why": "the mirror is down", "dry_run": True}},
    ("POST", "/3/jobs/release"): {"list first": {"filter": "status=queued", "dry_run": True}},
    ("POST", "/3/jobs/modify"): {
        "list first": {"filter": "status=queued", "change": {"labels": {"team": "web"}}, "dry_run": True}
    },
    ("POST", "/3/jobs/rerun"): {"failed ones, listed first": {"filter": "status=error", "dry_run": True}},
    ("POST", "/3/prune"): {"tell only": {"dry_run": True}},
    ("PUT", "/3/schedules/{name}"): {
        "every night": {"cron": "0 2 * * *", "zone": "Europe/Athens", "job": [_HELLO], "overlap": "skip"},
        "every ten minutes": {"every_s": 600, "job": [_HELLO]},
    },
    ("PUT", "/3/resources/{key}"): {
        "five licences": {"total": 5},
        "memory, in bytes": {"total": 4294967296, "unit": "bytes"},
    },
    ("POST", "/3/filters"): {
        "hold back upgrades": {
            "action": "PAUSE",
            "where": "op=OP_RUN_COMMAND & comment=~upgrade",
            "reason": "release week",
        },
        "two backups at once": {
            "action": ["RATE_LIMIT", 2],
            "priority": 10,
            "predicates": [["reason", ["=~", "reason", "backup"]]],
        },
    },
    ("POST", "/3/filters/try"): {"hold back all commands": {"action": "PAUSE", "where": "op=OP_RUN_COMMAND"}},
    ("PUT", "/3/queue/limits"): {"fifty jobs at once": {"max_running_jobs": 50}},
    **{("POST", f"/3/query/{kind}"): {"names": {"fields": ["name"]}} for kind in ("lock", "node", "group")},
    ("POST", "/3/query/filter"): {"rules": {"fields": ["uuid", "action"]}},
}
