"""The keys of a job in a plan: what each takes, and what it becomes.

Source: DESIGN section 16; `common.opcodes.command`.
"""

import time
from collections.abc import Callable, Mapping
from typing import Final

import attrs
import click

from cli.choosing.commandargs import SIZE
from cli.choosing.lockargs import LOCK, lock_modes
from cli.durations import DURATION
from cli.plans.documents import shown
from common.errors import InvalidRequest
from common.queue.jobs import FINAL_NAMES, SUBMIT_PRIORITIES
from common.queue.terms import Use, check_label, check_name, read_use

Schema = Mapping[str, object]
# ways in which a job waited for may end -> the states; a state's own name is one, too
ENDS: Final = {"failure": ("error",), "any": tuple(sorted(FINAL_NAMES)), **{name: (name,) for name in FINAL_NAMES}}
_TEXT: Final[Schema] = {"type": "string"}
_WHOLE: Final[Schema] = {"type": "integer"}
_TEXT_OR_WHOLE: Final[Schema] = {"type": ["string", "integer"]}


@attrs.frozen
class PlanField:
    """A key."""

    # value -> what it becomes. Raises: InvalidRequest, UsageError, BadParameter: it cannot be that
    read: Callable[[object], object]
    # as JSON Schema
    schema: Schema
    help: str


def text(value: object) -> str:
    if isinstance(value, str):
        return value
    raise InvalidRequest(f"expected a text, got {shown(value)}; put it into quotes")


def word(value: object) -> str:
    """A text, or a whole number that is meant as one: `PORT: 8080`."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else text(value)


def words(value: object) -> list[str]:
    if isinstance(value, list) and value:
        return [word(each) for each in value]
    raise InvalidRequest(f"expected a list of words, got {shown(value)}; a text for the shell stands under 'shell'")


def texts(value: object) -> list[str]:
    return [text(each) for each in value] if isinstance(value, list) else [text(value)]


def flag(value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise InvalidRequest(f"expected true or false, got {shown(value)}")


def number(value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    raise InvalidRequest(f"expected a number, got {shown(value)}")


def whole(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise InvalidRequest(f"expected a whole number, got {shown(value)}")


def wholes(value: object) -> list[int]:
    return [whole(each) for each in value] if isinstance(value, list) else [whole(value)]


def duration(value: object) -> float:
    """Seconds: 90, or `90s`, `5m`, `2h`."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return DURATION.convert(str(value) if is_number else text(value), None, None)


def size(value: object) -> int:
    """Bytes, or `512M`."""
    return SIZE.convert(str(whole(value)) if isinstance(value, int) else text(value), None, None)


def mapping(value: object) -> dict[str, str]:
    if isinstance(value, dict):
        return {str(key): word(each) for key, each in value.items()}
    raise InvalidRequest(f"expected names with their values, got {shown(value)}")


def name(value: object) -> str:
    check_name(found := text(value))
    return found


def labels(value: object) -> dict[str, str]:
    found = mapping(value)
    for key, each in found.items():
        check_label(key, each)
    return found


def uses(value: object) -> tuple[Use, ...]:
    if not isinstance(value, dict):
        raise InvalidRequest(f"expected resources with their counts, got {shown(value)}")
    return tuple(read_use(str(key), size(each)) for key, each in value.items())


def locks(value: object) -> dict[str, str]:
    """`node/web1`, a list of such, or names with their modes."""
    if isinstance(value, dict):
        value = [f"{key}:{text(mode)}" for key, mode in value.items()]
    return lock_modes(LOCK.convert(each, None, None) for each in texts(value))


def begin(value: object) -> float:
    """Seconds since 1970, or `tomorrow 02:00`."""
    # imported late: few plans name a time
    from common.words.instants import parse_instant

    is_number = isinstance(value, int) and not isinstance(value, bool)
    return parse_instant(f"@{value}" if is_number else text(value), time.time(), None)


def hold(value: object) -> str | None:
    """The words for a hold, which may be empty; None: none is put."""
    return ("" if value else None) if isinstance(value, bool) else text(value)


def priority(value: object) -> int:
    if not isinstance(value, str):
        return whole(value)
    if value not in SUBMIT_PRIORITIES:
        raise InvalidRequest(f"no priority is {shown(value)}; write {', '.join(SUBMIT_PRIORITIES)}, or a number")
    return SUBMIT_PRIORITIES[value]


def opcodes(value: object) -> list[dict[str, object]]:
    if isinstance(value, list) and value and all(isinstance(op, dict) for op in value):
        return value
    raise InvalidRequest(f"expected a list of at least one opcode, got {shown(value)}")


def stderr(value: object) -> bool | None:
    if value in ("joined", "apart"):
        return True if value == "apart" else None
    raise InvalidRequest(f"expected joined or apart, got {shown(value)}")


def ulimits(value: object) -> dict[str, list[int]]:
    """`nofile: 4096`, or `nofile: [1024, 4096]`."""
    if not isinstance(value, dict):
        raise InvalidRequest(f"expected limits with their values, got {shown(value)}")
    return {str(key): wholes(each) for key, each in value.items()}


def _listed(schema: Schema) -> Schema:
    return {"type": "array", "items": schema, "minItems": 1}


def _either(*schemas: Schema) -> Schema:
    return {"anyOf": list(schemas)}


def _named(schema: Schema) -> Schema:
    return {"type": "object", "additionalProperties": schema}


_TEXTS: Final = _either(_TEXT, _listed(_TEXT))
_FLAG: Final[Schema] = {"type": "boolean"}
_DURATION: Final[Schema] = {"type": ["number", "string"]}
_NUMBER: Final[Schema] = {"type": "number"}

# of each job: who it is, and when it begins
TERMS: Final[Mapping[str, PlanField]] = {
    "name": PlanField(name, _TEXT, "Name of the job; 'after' of later jobs refers to it."),
    "labels": PlanField(labels, _named(_TEXT_OR_WHOLE), "Labels."),
    "begin": PlanField(begin, _TEXT_OR_WHOLE, "It does not begin before: 'tomorrow 02:00', 'in 3h'."),
    "hold": PlanField(hold, {"type": ["boolean", "string"]}, "It does not begin before its release; a text says why."),
    "use": PlanField(uses, _named(_TEXT_OR_WHOLE), "Resources that it uses: licences: 2, web1:memory: 4G."),
}
PRIORITY: Final = PlanField(priority, _TEXT_OR_WHOLE, "low, normal, high, or a number.")
REASON: Final = PlanField(text, _TEXT, "Why; may name a rate limit.")
OPCODES: Final = PlanField(
    opcodes, _listed({"type": "object", "required": ["OP_ID"]}), "The opcodes, as luxid takes them."
)
RUN: Final = PlanField(words, _listed(_TEXT_OR_WHOLE), "The command and its words.")
SHELL: Final = PlanField(text, _TEXT, "The command, as /bin/sh reads it.")
# key -> parameter of OP_RUN_COMMAND, where it has another name
PARAMETERS: Final = {"exit_code": "exit_codes", "stderr": "stderr_apart"}
COMMAND: Final[Mapping[str, PlanField]] = {
    "cwd": PlanField(text, _TEXT, "Folder; / if left out."),
    "env": PlanField(mapping, _named(_TEXT_OR_WHOLE), "Variables."),
    "locks": PlanField(locks, _either(_TEXTS, _named({"enum": ["shared", "exclusive"]})), "Locks, node/web1[:shared]."),
    "node": PlanField(text, _TEXT, "Node on which it runs."),
    "timeout": PlanField(duration, _DURATION, "It is ended after this time."),
    "user": PlanField(text, _TEXT, "User."),
    "stdin_text": PlanField(text, _TEXT, "Standard input."),
    "stdin_path": PlanField(text, _TEXT, "File with the standard input."),
    "stderr": PlanField(stderr, {"enum": ["joined", "apart"]}, "Whether standard error is kept by itself."),
    "memory": PlanField(size, _TEXT_OR_WHOLE, "Memory limit: 2G."),
    "cpus": PlanField(number, _NUMBER, "Limit of processors."),
    "nice": PlanField(whole, _WHOLE, "Niceness."),
    "ulimits": PlanField(ulimits, _named(_either(_WHOLE, _listed(_WHOLE))), "Limits: nofile: 4096."),
    "exit_code": PlanField(wholes, _either(_WHOLE, _listed(_WHOLE)), "Exit codes that are a success."),
    "detach": PlanField(flag, _FLAG, "Background processes run on."),
    "keep_locks": PlanField(flag, _FLAG, "They keep the locks."),
    "retries": PlanField(whole, _WHOLE, "After a failure it runs again, so many times."),
    "retry_delay": PlanField(duration, _DURATION, "Pause before the first of them."),
    "retry_factor": PlanField(number, _NUMBER, "Each pause is so many times as long."),
    "retry_max": PlanField(duration, _DURATION, "No pause is longer."),
    "retry_on": PlanField(texts, _TEXTS, "Only after these failures: exit=75, timeout."),
    "fail_on": PlanField(texts, _TEXTS, "Never after these."),
    "rerunnable": PlanField(flag, _FLAG, "It may run twice, if it was lost."),
}
AFTER_SCHEMA: Final = _either(
    _TEXT_OR_WHOLE, _listed(_TEXT_OR_WHOLE), _named(_either({"enum": sorted(ENDS)}, _listed({"enum": sorted(ENDS)})))
)


def read_field(field: PlanField, value: object) -> object:
    """Raises: InvalidRequest: the value cannot be that."""
    try:
        return field.read(value)
    except click.ClickException as error:
        raise InvalidRequest(error.message) from None
