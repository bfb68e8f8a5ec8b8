"""Schemas of the types that write and read their JSON themselves.

Source: `common.shapes.OwnForm`; luxid.md 2.1, 6.
"""

from collections.abc import Mapping
from typing import Final

from common.ids import JobId
from common.locks import Lock, LockLevel, Owner
from common.opcodes.structures import Change, DiskParams, RecreatedDisk
from common.query.qlang import Expression
from common.queue.dependencies import Dependency
from common.queue.filters.actions import Action
from common.queue.jobs import FINAL_NAMES
from common.queue.reasons import ReasonEntry
from common.queue.waithistory import Span, WaitKind

Schema = Mapping[str, object]

_IDS: Final = {"type": "array", "items": {"type": "integer"}}
_TEXTS: Final = {"type": "array", "items": {"type": "string"}}
_SECONDS: Final = {"type": "number", "description": "seconds since 1970"}


def _tuple(*parts: Schema, least: int | None = None) -> Schema:
    count = len(parts)
    return {
        "type": "array",
        "prefixItems": list(parts),
        "items": False,
        "minItems": count if least is None else least,
        "maxItems": count,
    }


OWN_FORMS: Final[Mapping[object, Schema]] = {
    JobId: {"type": "integer", "minimum": 0},
    Lock: {"type": "string", "description": "a lock as `level/name`", "examples": ["node/web1", "cluster/BGL"]},
    LockLevel: {"type": "string", "enum": [str(level.value) for level in LockLevel]},
    Owner: {"type": "array", "description": "id or name, and livelock, of what holds locks"},
    Action: {
        "description": "what becomes of a job that the rule matches",
        "oneOf": [
            {"enum": ["ACCEPT", "PAUSE", "REJECT", "CONTINUE"]},
            {
                **_tuple({"const": "RATE_LIMIT"}, {"type": "integer", "minimum": 1}),
                "description": "at most so many of them run at once",
            },
        ],
    },
    ReasonEntry: {
        **_tuple({"type": "string"}, {"type": "string"}, {"type": "integer"}),
        "description": "source, reason, nanoseconds since 1970",
    },
    Dependency: {
        **_tuple({"type": "integer"}, {"type": "array", "items": {"enum": sorted(FINAL_NAMES)}}),
        "description": "job id, negative for an earlier job of the same submission; states that satisfy it, "
        "empty for success or error",
    },
    Expression: {"type": ["array", "null"], "description": "`[operator, operand, ...]` of the query language"},
    Span: {
        "type": "object",
        "description": "a period in which one cause held the job",
        "properties": {
            "kind": {"enum": [kind.value for kind in WaitKind]},
            "since": _SECONDS,
            "until": {**_SECONDS, "type": ["number", "null"]},
            "job_ids": _IDS,
            "names": _TEXTS,
            "owners": _TEXTS,
            "more": {"type": "integer"},
            "limit": {"type": "integer"},
            "is_bucket": {"type": "boolean"},
            "reason": {"type": "string"},
        },
        "required": ["kind", "since", "until"],
    },
    DiskParams: {"type": "object", "description": "a disk: size, mode, vg, ... and keys of its storage provider"},
    RecreatedDisk: {
        "description": "index of a disk, or index and changed parameters",
        "oneOf": [{"type": "integer"}, _tuple({"type": "integer"}, {"type": "object"})],
    },
    Change: {
        **_tuple({"type": ["string", "integer"]}, {}, {"type": "object"}, least=2),
        "description": "`[action or index, parameters]` or `[action, index or name, parameters]`",
    },
}
