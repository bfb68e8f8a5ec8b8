"""Plans: the keys of a job, the jobs of a document, and the JSON Schema of it."""

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import attrs

from common.errors import InvalidRequest
from common.queue.jobs import FINAL_NAMES, SUBMIT_PRIORITIES
from common.queue.reasons import USER_SOURCE, ReasonEntry
from common.queue.terms import check_label, check_name, checked, read_use
from common.wire import read_asked
from common.words.typed import lock_modes, read_duration, read_lock, read_size
from protocol.luxi.jobs import NewJob, OpInput, Submission
from protocol.plans.documents import Path, PlanDocument, shown

# The keys of a job in a plan: what each takes, and what it becomes.
#
# Source: DESIGN section 16; `common.opcodes.command`.


Schema = Mapping[str, object]
# ways in which a job waited for may end -> the states; a state's own name is one, too
ENDS: Final = {"failure": ("error",), "any": tuple(sorted(FINAL_NAMES)), **{name: (name,) for name in FINAL_NAMES}}
_TEXT: Final[Schema] = {"type": "string"}
_WHOLE: Final[Schema] = {"type": "integer"}
_TEXT_OR_WHOLE: Final[Schema] = {"type": ["string", "integer"]}


@attrs.frozen
class PlanField:
    """A key."""

    # value -> what it becomes. Raises: InvalidRequest: it cannot be that
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
    return read_duration(str(value) if is_number else text(value))


def size(value: object) -> int:
    """Bytes, or `512M`."""
    return read_size(str(whole(value)) if isinstance(value, int) else text(value))


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


def uses(value: object) -> dict[str, int]:
    if not isinstance(value, dict):
        raise InvalidRequest(f"expected resources with their counts, got {shown(value)}")
    found = [read_use(str(key), size(each)) for key, each in value.items()]
    return {use.key: use.count for use in found}


def locks(value: object) -> dict[str, str]:
    """`node/web1`, a list of such, or names with their modes."""
    if isinstance(value, dict):
        value = [f"{key}:{text(mode)}" for key, mode in value.items()]
    return lock_modes(read_lock(each) for each in texts(value))


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
# key -> field of a job, where it has another name
_FIELDS: Final = {"begin": "begin_at", "use": "uses"}
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


# Plans: the jobs of a document, and the places of their opcodes in it.
#
# A document is one of these:
#
# * an opcode, a job (a list of opcodes), or a list of jobs, as luxid takes them;
# * a plan: a mapping with `jobs`, each a mapping with the keys of `planfields`, and perhaps `defaults` for them. Keys
#   that begin with `x-` are left alone: there the user keeps what he refers to by aliases.
#
#     defaults: {labels: {team: web}, retries: 2}
#     jobs:
#       - name: build
#         run: [make, -j4]
#       - name: deploy
#         after: build
#         shell: ./deploy && ./check
#
# Source: DESIGN section 16.


# keys whose values are joined, not replaced: those of `defaults` and those of a job
_JOINED: Final = ("labels", "use", "env")
_WORK: Final = ("run", "shell", "ops")
_FREE: Final = "x-"
_ID: Final = re.compile(r"[0-9]{1,18}")
# how luxid names an opcode of a submission
_PLACE: Final = re.compile(r"(?:job (\d{1,9}), )?opcode (\d{1,9}): |job (\d{1,9}): ", re.ASCII)


@attrs.frozen
class JobPlan:
    """The jobs of a document."""

    document: PlanDocument
    jobs: Sequence[NewJob]
    # for each job its place
    _paths: Sequence[Path]
    # for each job the path from there to its first opcode's list; None: it is written in the words of plans
    _to_ops: Sequence[Path | None]

    def located(self, message: str) -> str:
        """luxid's message about an opcode, with the opcode's place in the file."""
        match = _PLACE.match(message)
        if match is None:
            return message
        job = int(match[1] or match[3] or 1) - 1
        if not job < len(self.jobs):
            return message
        to_ops, path = self._to_ops[job], self._paths[job]
        if to_ops is not None:
            path = (*path, *to_ops, int(match[2] or 1) - 1)
        return f"{self.document.at(path)}: {message}"


def read_plan(document: PlanDocument) -> JobPlan:
    """Raises: InvalidRequest: it is none of the above; with line and column."""
    value = document.value
    if isinstance(value, dict) and "jobs" in value and "OP_ID" not in value:
        return _Planned(document, value).plan()
    if isinstance(value, dict):
        return _plan(document, [{"ops": _job([value], document, (), None)}], [()], [None])
    if not isinstance(value, list) or not value:
        raise _expected(document, (), "a list of opcodes, or of jobs, or a plan with 'jobs'", value)
    if isinstance(value[0], list):
        jobs = [{"ops": _job(job, document, (place,), ())} for place, job in enumerate(value)]
        return _plan(document, jobs, [(place,) for place in range(len(jobs))], [()] * len(jobs))
    return _plan(document, [{"ops": _job(value, document, (), ())}], [()], [()])


def _plan(
    document: PlanDocument, jobs: Sequence[Mapping[str, object]], paths: Sequence[Path], to_ops: Sequence[Path | None]
) -> JobPlan:
    """The jobs as the body of `POST /3/jobs` has them, read in the same way; places as for `JobPlan`."""
    try:
        made = read_asked({"jobs": list(jobs)}, Submission).jobs
    except InvalidRequest as error:
        raise document.error((), error.message) from None
    for job, path in zip(made, paths, strict=True):
        try:
            checked(job.terms())
        except InvalidRequest as error:
            raise document.error(path, error.message) from None
    return JobPlan(document, made, paths, to_ops)


def _job(value: object, document: PlanDocument, path: Path, to_ops: Path | None) -> list[OpInput]:
    """Args: to_ops: path to the list of the opcodes; None: the only one stands at `path`."""
    if not isinstance(value, list) or not value:
        raise _expected(document, path, "a job: a list of at least one opcode", value)
    for index, op in enumerate(value):
        place = path if to_ops is None else (*path, *to_ops, index)
        if not isinstance(op, dict):
            raise _expected(document, place, "an opcode: an object with an OP_ID", op)
        if "OP_ID" not in op and op.keys() & {*_WORK, *TERMS}:
            raise document.error(
                place, "a job in these words stands in the list of 'jobs' of a plan; write 'jobs:' above"
            )
        if not isinstance(op.get("OP_ID"), str):
            raise document.error_of_value(place, 'the opcode lacks a string OP_ID, e.g. "OP_RUN_COMMAND"')
    return value


def _expected(document: PlanDocument, path: Path, expected: str, value: object) -> InvalidRequest:
    return document.error_of_value(path, f"expected {expected}, got {shown(value)}")


class _Planned:
    """A mapping with `jobs`."""

    def __init__(self, document: PlanDocument, value: Mapping[str, object]) -> None:
        self._document = document
        self._value = value
        # name -> place in the plan
        self._named: dict[str, int] = {}
        self._repeated: set[str] = set()

    def plan(self) -> JobPlan:
        jobs, defaults = self._value["jobs"], self._value.get("defaults") or {}
        self._check_keys((), self._value, ("jobs", "defaults"))
        if not isinstance(jobs, list) or not jobs:
            raise _expected(self._document, ("jobs",), "a list of jobs", jobs)
        if not isinstance(defaults, dict):
            raise _expected(self._document, ("defaults",), "keys of jobs with their values", defaults)
        for key in ("name", "after", *_WORK):
            if key in defaults:
                raise self._document.error(("defaults", key), f"'{key}' is each job's own; write it there")
        self._check_keys(("defaults",), defaults, (*TERMS, *COMMAND, "priority", "reason"))
        made = [self._job(place, job, defaults) for place, job in enumerate(jobs)]
        to_ops = [("ops",) if isinstance(job, dict) and "ops" in job else None for job in jobs]
        return _plan(self._document, made, [("jobs", place) for place in range(len(jobs))], to_ops)

    def _check_keys(self, path: Path, value: Mapping[str, object], known: Sequence[str]) -> None:
        for key in value:
            if key not in known and not key.startswith(_FREE):
                # imported late: only an error needs it
                import difflib

                nearest = difflib.get_close_matches(key, known, n=1)
                advice = f"did you mean '{nearest[0]}'?" if nearest else f"there are {', '.join(known)}"
                raise self._document.error((*path, key), f"no key '{key}' is known here; {advice}")

    def _job(self, place: int, job: object, defaults: Mapping[str, object]) -> dict[str, object]:
        path: Path = ("jobs", place)
        if not isinstance(job, dict):
            raise _expected(self._document, path, "a job: a mapping with 'run', 'shell' or 'ops'", job)
        self._check_keys(path, job, (*TERMS, "after", *_WORK, "priority", "reason", *COMMAND))
        work = [key for key in _WORK if key in job]
        if len(work) != 1:
            raise self._document.error(
                path, f"a job has one of {', '.join(_WORK)}; this has {' and '.join(work) or 'none'}"
            )
        if "ops" in job and (wrong := next((key for key in COMMAND if key in job), None)) is not None:
            raise self._document.error((*path, wrong), f"'{wrong}' is for 'run' and 'shell'; write it into the opcode")
        given = _Given(self._document, path, job, defaults)
        ops = self._ops(given, path)
        first = self._after(path, job.get("after"), ops[0])
        self._remember(path, job, place)
        terms = {_FIELDS.get(key, key): given.read(key, field) for key, field in TERMS.items() if given.has(key)}
        return {"ops": [first, *ops[1:]], **terms}

    def _ops(self, given: "_Given", path: Path) -> list[OpInput]:
        if given.has("ops"):
            ops = [dict(op) for op in _job(given.read("ops", OPCODES), self._document, path, ("ops",))]
        else:
            ops = [_command(given)]
        more: dict[str, object] = {}
        if given.has("priority"):
            more["priority"] = given.read("priority", PRIORITY)
        if given.has("reason"):
            entry = ReasonEntry(USER_SOURCE, str(given.read("reason", REASON)), time.time_ns()).to_wire()
            return [{**op, **more, "reason": [*_trail(op), entry]} for op in ops]
        return [{**op, **more} for op in ops]

    def _remember(self, path: Path, job: Mapping[str, object], place: int) -> None:
        name = job.get("name")
        if isinstance(name, str):
            if name in self._named:
                self._repeated.add(name)
            self._named[name] = place

    def _after(self, path: Path, after: object, op: OpInput) -> OpInput:
        """The first opcode with these dependencies, those that it has already before them."""
        if after is None:
            return op
        found = [self._dependency((*path, "after", *step), path[1], name, ends) for step, name, ends in _targets(after)]
        # both names mean the same to luxid, which refuses them together
        name = "depend" if op.get("depends") is None and op.get("depend") is not None else "depends"
        own = op.get(name)
        return {**op, name: [*(own if isinstance(own, list) else ()), *found]}

    def _dependency(self, path: Path, place: str | int, name: object, ends: object) -> list[object]:
        statuses: list[str] = []
        if ends == []:
            # luxid would take it for any end
            raise self._document.error(path, f"say how the job is to end: {', '.join(sorted(ENDS))}")
        for each in ends if isinstance(ends, list) else [ends]:
            if not isinstance(each, str) or each not in ENDS:
                raise self._document.error(path, f"no job ends as {shown(each)}; write {', '.join(sorted(ENDS))}")
            statuses += ENDS[each]
        return [self._target(path, int(place), name), sorted(set(statuses))]

    def _target(self, path: Path, place: int, name: object) -> int:
        """A negative number counts back from the job at `place`; a positive one is a job's id."""
        if isinstance(name, int) and not isinstance(name, bool) and name > 0:
            return name
        if not isinstance(name, str):
            raise self._document.error(path, f"expected the name of a job above, or an id, got {shown(name)}")
        if name in self._repeated:
            raise self._document.error(path, f"several jobs above are named '{name}'; give each its own name")
        if name not in self._named:
            raise self._document.error(
                path, f"no job above is named '{name}'; a job waits for jobs that stand above it"
            )
        return self._named[name] - place


def _targets(after: object) -> Iterator[tuple[Path, object, object]]:
    """Each with the path to it, the job, and the ways in which it may end."""
    if isinstance(after, dict):
        for name, ends in after.items():
            yield (name,), int(name) if _ID.fullmatch(name) else name, ends
    elif isinstance(after, list):
        for place, name in enumerate(after):
            yield (place,), name, "success"
    else:
        yield (), after, "success"


class _Given:
    """The values of a job, where the defaults stand behind its own."""

    def __init__(
        self, document: PlanDocument, path: Path, job: Mapping[str, object], defaults: Mapping[str, object]
    ) -> None:
        self._document = document
        self._sources: Sequence[tuple[Path, Mapping[str, object]]] = ((("defaults",), defaults), (path, job))

    def has(self, key: str) -> bool:
        return any(key in source for _, source in self._sources)

    def read(self, key: str, field: PlanField) -> object:
        """The value, read; of keys that are joined those of both. Raises: InvalidRequest: with line and column."""
        found = [self._read_at((*path, key), source[key], field) for path, source in self._sources if key in source]
        if key in _JOINED:
            return {name: value for each in found for name, value in each.items()}  # type: ignore[attr-defined]
        return found[-1]

    def _read_at(self, path: Path, value: object, field: PlanField) -> object:
        try:
            return field.read(value)
        except InvalidRequest as error:
            raise self._document.error_of_value(path, error.message) from None


def _command(given: _Given) -> dict[str, object]:
    is_shell = given.has("shell")
    argv = [given.read("shell", SHELL)] if is_shell else given.read("run", RUN)
    op: dict[str, object] = {"OP_ID": "OP_RUN_COMMAND", "argv": argv, "shell": is_shell}
    for key, field in COMMAND.items():
        if given.has(key) and (value := given.read(key, field)) is not None:
            op[PARAMETERS.get(key, key)] = value
    return op


def _trail(op: Mapping[str, object]) -> Sequence[object]:
    trail = op.get("reason")
    return trail if isinstance(trail, list) else ()


# The JSON Schema of a plan, for editors.
#
# Source: DESIGN section 16; json-schema.org, draft 2020-12.


def plan_schema() -> dict[str, object]:
    """The schema of a plan with `jobs`."""
    shared = {**TERMS, "priority": PRIORITY, "reason": REASON, **COMMAND}
    work = {"run": RUN, "shell": SHELL, "ops": OPCODES}
    after = {**AFTER_SCHEMA, "description": "Jobs above, by their names, or others by their ids; with how they end."}
    job = {
        "type": "object",
        "properties": {**_properties({**shared, **work}), "after": after},
        "patternProperties": {"^x-": {}},
        "additionalProperties": False,
        "oneOf": [{"required": [key]} for key in work],
    }
    defaults = _properties({key: field for key, field in shared.items() if key != "name"})
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Jobs to submit with gnt-job submit",
        "type": "object",
        "required": ["jobs"],
        "properties": {
            "jobs": {"type": "array", "minItems": 1, "items": job},
            "defaults": {
                "type": "object",
                "properties": defaults,
                "patternProperties": {"^x-": {}},
                "additionalProperties": False,
            },
        },
        "patternProperties": {"^x-": {}},
        "additionalProperties": False,
    }


def _properties(fields: Mapping[str, PlanField]) -> dict[str, object]:
    return {key: {**field.schema, "description": field.help} for key, field in fields.items()}
