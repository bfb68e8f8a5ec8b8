"""Parameters of queries and headers: described once, for the document and for the reader."""

from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from common.ids import JobId
from daemons.rapid.calls import Asked, Call, CallParameter, Handler
from daemons.rapid.refusals import RequestRefused

_ID_END: Final = 2**63
_TRUE: Final = ("1", "true", "yes")
_FALSE: Final = ("0", "false", "no", "")


def whole(
    name: str, description: str, *, default: int | None = None, low: int = 0, high: int = _ID_END - 1
) -> CallParameter:
    """A whole number."""
    schema: dict[str, object] = {"type": "integer", "minimum": low, "maximum": high}
    return CallParameter(name, description, schema if default is None else {**schema, "default": default})


def seconds(name: str, description: str, *, default: float, high: float) -> CallParameter:
    """A duration."""
    return CallParameter(name, description, {"type": "number", "minimum": 0, "maximum": high, "default": default})


def flag(name: str, description: str) -> CallParameter:
    """Something that is off unless it is switched on."""
    return CallParameter(name, description, {"type": "boolean", "default": False})


def choice(name: str, description: str, words: Sequence[str], default: str) -> CallParameter:
    """One of some words."""
    return CallParameter(name, description, {"type": "string", "enum": list(words), "default": default})


def text_of(asked: Asked, parameter: CallParameter) -> str | None:
    """The text of a parameter; None: it is not there."""
    if parameter.place == "header":
        return asked.http.headers.get(parameter.name)
    return asked.http.query_params.get(parameter.name)


def whole_of(asked: Asked, parameter: CallParameter) -> int | None:
    """Raises: RequestRefused: it is no whole number, or out of range."""
    text = text_of(asked, parameter)
    if text is None:
        default = parameter.schema.get("default")
        return default if isinstance(default, int) else None
    digits = text[1:] if text.startswith("-") else text
    if not (digits.isascii() and digits.isdigit() and len(digits) < 20):
        raise _wrong(parameter, f"must be a whole number, got {text!r:.60}")
    return int(_in_range(parameter, int(text)))


def seconds_of(asked: Asked, parameter: CallParameter) -> float:
    """Raises: RequestRefused: it is no number, or out of range."""
    text = text_of(asked, parameter)
    if text is None:
        default = parameter.schema.get("default")
        return float(default) if isinstance(default, int | float) else 0.0
    try:
        number = float(text)
    except ValueError:
        raise _wrong(parameter, f"must be a number of seconds, got {text!r:.60}") from None
    return _in_range(parameter, number)


def flag_of(asked: Asked, parameter: CallParameter) -> bool:
    """Raises: RequestRefused: it is neither yes nor no."""
    text = (text_of(asked, parameter) or "").lower()
    if text not in _TRUE and text not in _FALSE:
        raise _wrong(parameter, f"must be true or false, got {text!r:.60}")
    return text in _TRUE


def choice_of(asked: Asked, parameter: CallParameter) -> str:
    """Raises: RequestRefused: it is none of the words."""
    text = text_of(asked, parameter)
    words = parameter.schema.get("enum")
    assert isinstance(words, list)
    if text is None:
        return str(parameter.schema["default"])
    if text not in words:
        raise _wrong(parameter, f"must be one of {', '.join(words)}, got {text!r:.60}")
    return text


def words_of(asked: Asked, parameter: CallParameter) -> tuple[str, ...] | None:
    """Words with commas between; None: the parameter is not there."""
    text = text_of(asked, parameter)
    return None if text is None else tuple(word for word in map(str.strip, text.split(",")) if word)


def job_id_of(asked: Asked) -> JobId:
    """The job id of the path. Raises: RequestRefused: no job can have it."""
    number = int(asked.http.path_params["id"])
    if not 0 < number < _ID_END:
        raise RequestRefused(404, f"there is no job {number!s:.20}; job ids are whole numbers from 1")
    return JobId(number)


def strict(call: Call) -> Call:
    """The call, refusing parameters in the query that it does not know: a misspelt one would be ignored silently."""
    known = [parameter.name for parameter in call.parameters if parameter.place == "query"]
    return attrs.evolve(call, handler=_refusing_others(call.handler, known))


def _refusing_others(handler: Handler, known: Sequence[str]) -> Handler:
    async def refusing(asked: Asked) -> object:
        for name in asked.http.query_params:
            if name not in known:
                advice = f"it takes {', '.join(known)}" if known else "it takes none"
                raise RequestRefused(400, f"there is no parameter {name!r:.60} here; {advice}")
        return await handler(asked)

    return refusing


def _in_range(parameter: CallParameter, number: float) -> float:
    low, high = _bounds(parameter.schema)
    # this form refuses nan as well
    if not low <= number <= high:
        raise _wrong(parameter, f"must be from {low:g} to {high:g}, got {number:g}")
    return number


def _bounds(schema: Mapping[str, object]) -> tuple[float, float]:
    low, high = schema.get("minimum"), schema.get("maximum")
    assert isinstance(low, int | float)
    assert isinstance(high, int | float)
    return low, high


def _wrong(parameter: CallParameter, what: str) -> RequestRefused:
    return RequestRefused(400, f"parameter {parameter.name!r} {what}")


# Examples of bodies for the document; a test sends each of them.


_HELLO: Final = {"OP_ID": "OP_RUN_COMMAND", "argv": ["echo", "hello"]}

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
            "jobs": [{"ops": [{**_HELLO, "node": node}]} for node in ("web1", "web2")],
            "batch": {"at_most": 1, "failures": 0},
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
    ("POST", "/3/jobs/rerun"): {
        "failed ones, listed first": {"filter": "status=error", "dry_run": True},
        "with the jobs that depend on them": {"filter": "status=error", "with_dependents": True, "dry_run": True},
        "from the failed opcode on": {"filter": "status=error", "from_failed": True, "dry_run": True},
    },
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
