"""Forms that say which jobs to submit: what their fields mean, what is wrong with them, and how they are filled.

Theory. A form has one command, in fields of its own, or a plan, as `gnt-job submit` reads it. Both are read by the same
functions as there. What a field says wrong is told at the field, and all texts are kept. A job that is edited to run
again is shown as a command if the fields can say all of it, else as a plan with its opcodes.

Source: DESIGN sections 15 and 16.
"""

import hashlib
import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import attrs

from common.errors import GantryError, InvalidRequest
from common.ids import read_number
from common.opcodes.base import summary, without_unset
from common.opcodes.registry import parse_opcode
from common.printable import defused
from common.queue.jobs import FINAL_NAMES, SUBMIT_PRIORITIES
from common.queue.reasons import ReasonEntry
from common.queue.terms import JobTerms, check_label
from common.words.instants import parse_instant
from common.words.times import bare_clock
from daemons.rapid.page.views.boards import FormField, JobLook
from daemons.rapid.page.visitors import Form, first
from protocol.luxi.jobs import NewJob, OpInput
from protocol.plans.documents import PlanDocument, read_document
from protocol.plans.jobs import COMMAND, ENDS, TERMS, JobPlan, read_plan

# bytes of a plan
LONGEST_PLAN: Final = 2**20
# jobs of a plan
MOST_JOBS: Final = 1000
# name of a plan that nobody has uploaded, as errors tell it
UNNAMED: Final = "plan"
_SUBMISSION: Final = "gnt:user"
_SUCCESS: Final = "success"
_OF_COMMAND: Final = "command"
_OF_PLAN: Final = "plan"
_ID: Final = "the id of a job has 1 to 18 digits, as in 27491 or 27491:error,canceled"


@attrs.frozen
class Texts:
    """What a form says, field by field."""

    values: Mapping[str, str]

    @classmethod
    def of(cls, form: Form) -> "Texts":
        """The texts as their writer saw them: browsers send lines with two characters at their ends."""
        return cls({name: first(form, name).replace("\r\n", "\n") for name in form})

    def __getitem__(self, name: str) -> str:
        return self.values.get(name, "")

    def is_on(self, name: str) -> bool:
        return self[name] == "yes"

    @property
    def is_plan(self) -> bool:
        return self["kind"] == _OF_PLAN

    def digest(self, names: Sequence[str]) -> str:
        """Stands for these texts: what was shown is compared with what is sent then."""
        told = json.dumps([self[name] for name in names])
        return hashlib.sha256(told.encode("utf-8", "surrogatepass")).hexdigest()[:32]


@attrs.frozen
class ReadJobs:
    """The jobs that a form names; or what is wrong with it."""

    jobs: tuple[NewJob, ...] = ()
    # field -> what is wrong with its text
    wrong: Mapping[str, str] = attrs.Factory(dict)
    # None: the form has a command
    plan: JobPlan | None = None

    def located(self, message: str) -> str:
        """luxid's message about an opcode, with its place in the plan."""
        return message if self.plan is None else self.plan.located(message)

    def looks(self) -> tuple[JobLook, ...]:
        """What the jobs are, for people."""
        return tuple(_look(place, job) for place, job in enumerate(self.jobs, 1))


def read_jobs(texts: Texts, now: float) -> ReadJobs:
    """Args: now: seconds since the epoch."""
    return _read_plan(texts) if texts.is_plan else _read_command(texts, now)


# Plans.


def _read_plan(texts: Texts) -> ReadJobs:
    content = texts["plan"].encode("utf-8", "surrogateescape")
    try:
        if len(content) > LONGEST_PLAN:
            raise InvalidRequest(
                f"the plan has {len(content):,} bytes, and the page takes at most {LONGEST_PLAN:,}; "
                "submit it with gnt-job submit"
            )
        if not content.strip():
            raise InvalidRequest("choose a file, or write a plan here")
        plan = read_plan(_document(content, texts["plan.filename"] or UNNAMED))
        if len(plan.jobs) > MOST_JOBS:
            raise InvalidRequest(
                f"the plan has {len(plan.jobs):,} jobs, and the page takes at most {MOST_JOBS:,}; "
                "submit it with gnt-job submit"
            )
        for number, job in enumerate(plan.jobs, 1):
            for place, op in enumerate(job.ops, 1):
                _check(op, plan, number if len(plan.jobs) > 1 else None, place)
    except InvalidRequest as error:
        return ReadJobs(wrong={"plan": error.message})
    return ReadJobs(plan.jobs if isinstance(plan.jobs, tuple) else tuple(plan.jobs), plan=plan)


def _document(content: bytes, name: str) -> PlanDocument:
    return read_document(content, name.replace("\\", "/").rpartition("/")[2][:80] or UNNAMED)


def _check(op: OpInput, plan: JobPlan, number: int | None, place: int) -> None:
    """Raises: InvalidRequest: the opcode is malformed; with its place in the plan."""
    try:
        parse_opcode(op)
    except GantryError as error:
        job = f"job {number}, " if number is not None else ""
        raise InvalidRequest(plan.located(f"{job}opcode {place}: {error.message}")) from None


# A command.


def _read_command(texts: Texts, now: float) -> ReadJobs:
    wrong: dict[str, str] = {}
    read: dict[str, object] = {}
    for name, reader in _READERS.items():
        try:
            if (value := reader(texts, now)) is not None:
                read[name] = value
        except InvalidRequest as error:
            wrong[name] = error.message
    if wrong:
        return ReadJobs(wrong=wrong)
    op = {"OP_ID": "OP_RUN_COMMAND", **{_PARAMETERS[name]: read[name] for name in _PARAMETERS if name in read}}
    if texts.is_on("shell"):
        op["shell"] = True
    if texts["reason"].strip():
        op["reason"] = [ReasonEntry(_SUBMISSION, texts["reason"].strip(), int(now * 1e9)).to_wire()]
    try:
        parse_opcode(op)
    except GantryError as error:
        return ReadJobs(wrong={_blamed(op): error.message})
    labels, job_name, begin = read.get("labels"), read.get("name"), read.get("begin")
    return ReadJobs(
        (
            NewJob(
                (op,),
                job_name if isinstance(job_name, str) else "",
                labels if isinstance(labels, dict) else {},
                begin if isinstance(begin, float) else None,
            ),
        )
    )


def _blamed(op: Mapping[str, object]) -> str:
    """The field whose value alone is refused, too; else that of the command."""
    for name, parameter in _PARAMETERS.items():
        if parameter in op:
            try:
                parse_opcode({"OP_ID": op["OP_ID"], "argv": ["true"], parameter: op[parameter]})
            except GantryError:
                return name
    return "command"


def _words(texts: Texts, _: float) -> object:
    text = texts["command"].strip()
    if not text:
        raise InvalidRequest("write a command, as in: rsync -a web1: db1:")
    return [text] if texts.is_on("shell") else _split(text)


def _split(text: str) -> list[str]:
    """Words as a shell splits them. Raises: InvalidRequest: a quotation does not end."""
    try:
        return shlex.split(text)
    except ValueError as error:
        reason = str(error).lower()
        raise InvalidRequest(f"the words cannot be told apart: {reason}; close it, or write a \\ before it") from None


def _locks(texts: Texts, _: float) -> object:
    words = texts["locks"].replace(",", " ").split()
    return COMMAND["locks"].read(words) if words else None


def _plain(name: str) -> Callable[[Texts, float], object]:
    """Reads a field as the key of a plan with the same name."""
    field = TERMS.get(name) or COMMAND[name]
    return lambda texts, _: field.read(texts[name].strip()) if texts[name].strip() else None


def _pairs(text: str, what: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for each in _split(text):
        key, sign, value = each.partition("=")
        if not (key and sign):
            raise InvalidRequest(f"'{each:.60}' is not {what}; write NAME=VALUE, with quotes around blanks")
        found[key] = value
    return found


def _labels(texts: Texts, _: float) -> object:
    found = _pairs(texts["labels"], "a label")
    for key, value in found.items():
        check_label(key, value)
    return found or None


def _variables(texts: Texts, _: float) -> object:
    return _pairs(texts["env"], "a variable") or None


def _begin(texts: Texts, now: float) -> object:
    text = texts["begin"].strip()
    return parse_instant(text, now, None) if text else None


def _priority(texts: Texts, _: float) -> object:
    word = texts["priority"] or "normal"
    if word not in SUBMIT_PRIORITIES:
        raise InvalidRequest(f"no priority is '{word:.40}'; choose {', '.join(SUBMIT_PRIORITIES)}")
    return SUBMIT_PRIORITIES[word] or None


def _after(texts: Texts, _: float) -> object:
    found = [_dependency(word) for word in texts["after"].split()]
    return found or None


def _dependency(word: str) -> list[object]:
    """`27491`, `27491:error,canceled`; success if left out."""
    text, _, names = word.partition(":")
    if not (number := read_number(text)):
        raise InvalidRequest(f"'{word:.60}' names no job: {_ID}")
    ends = [name for name in names.split(",") if name] or [_SUCCESS]
    if wrong := [name for name in ends if name not in ENDS]:
        raise InvalidRequest(f"no job ends as '{wrong[0]:.40}'; write {', '.join(sorted(ENDS))}")
    return [number, sorted({state for name in ends for state in ENDS[name]})]


# field -> what it means; None: it says nothing
_READERS: Final[Mapping[str, Callable[[Texts, float], object]]] = {
    "command": _words,
    "locks": _locks,
    "node": _plain("node"),
    "name": _plain("name"),
    "labels": _labels,
    "priority": _priority,
    "after": _after,
    "begin": _begin,
    "timeout": _plain("timeout"),
    "cwd": _plain("cwd"),
    "user": _plain("user"),
    "env": _variables,
}
# field -> parameter of the opcode
_PARAMETERS: Final = {
    "command": "argv",
    "locks": "locks",
    "node": "node",
    "priority": "priority",
    "after": "depends",
    "timeout": "timeout",
    "cwd": "cwd",
    "user": "user",
    "env": "env",
}
# fields of the jobs, in the order of the form
FIELDS: Final = (
    *("kind", "command", "shell", "locks", "node", "name", "labels", "priority", "reason", "after", "begin"),
    *("timeout", "cwd", "user", "env", "plan", "plan.filename"),
)


# What stands in the form.


def command_fields(texts: Texts, wrong: Mapping[str, str], *, is_once: bool = True) -> tuple[FormField, ...]:
    """The fields of a command. Args: is_once: whether it is for a single job, not for one again and again."""

    def field(name: str, title: str, example: str = "", **more: object) -> FormField:
        return FormField(name, title, texts[name], wrong.get(name, ""), example, **more)  # type: ignore[arg-type]

    names = tuple((name, name) for name in SUBMIT_PRIORITIES)
    priority = texts["priority"] if texts["priority"] in SUBMIT_PRIORITIES else "normal"
    fields = (
        field("command", "command", "rsync -a web1: db1:", is_long=True),
        field("shell", "as /bin/sh reads it, with pipes and variables", is_box=True),
        field("locks", "locks, each NAME[:shared|exclusive]", "node/web1:shared node/db1"),
        field("node", "on the node (empty: the master)", "web1"),
        field("name", "name of the job", "backup-web1"),
        field("labels", "labels", "team=web 'note=two words'"),
        FormField("priority", "priority", priority, wrong.get("priority", ""), options=names),
        field("reason", "why; may name a rate limit", "rate-limit:2:backup"),
        field("after", "after the jobs, each ID[:success|error|canceled,...]", "27491 27492:error"),
        field("begin", "not before", "tomorrow 02:00"),
        field("timeout", "ends at the latest after", "2h"),
        field("cwd", "in the folder", "/"),
        field("user", "as the user", ""),
        field("env", "variables", "PORT=8080 'TITLE=two words'"),
    )
    if is_once:
        return fields
    return tuple(each for each in fields if each.name not in ("name", "after", "begin"))


def plan_field(texts: Texts, wrong: Mapping[str, str]) -> FormField:
    example = "jobs:\n  - name: build\n    run: [make, -j4]\n  - name: deploy\n    after: build\n    shell: ./deploy"
    # what no text of a page can hold is shown as a question mark
    text = texts["plan"].encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    if len(text) > LONGEST_PLAN:
        text = ""
    return FormField("plan", "jobs, as YAML or JSON", text, wrong.get("plan", ""), example, is_long=True)


def filled(terms: JobTerms, ops: Sequence[Mapping[str, object]]) -> Texts:
    """The form of a job as `common.queue.reruns.to_edit` tells it."""
    texts = _as_command(terms, ops)
    return Texts(_as_plan(terms, ops) if texts is None else texts)


def _as_command(terms: JobTerms, ops: Sequence[Mapping[str, object]]) -> dict[str, str] | None:
    """None: the fields cannot say all of it."""
    if len(ops) != 1 or terms.uses:
        return None
    op = without_unset(ops[0])
    reasons = op.get("reason") or []
    known = {"OP_ID", "shell", "reason", *_PARAMETERS.values()}
    if op.get("OP_ID") != "OP_RUN_COMMAND" or op.keys() - known or not isinstance(reasons, list) or len(reasons) > 1:
        return None
    argv, locks, env, priority = op["argv"], op.get("locks") or {}, op.get("env") or {}, op.get("priority") or 0
    names = [name for name, number in SUBMIT_PRIORITIES.items() if number == priority]
    if not (isinstance(argv, list) and isinstance(locks, dict) and isinstance(env, dict) and names):
        return None
    # a page shows characters that change what is read as escapes, which would come back as such
    shown = map(str, (*argv, *locks, *env, *env.values(), terms.name, *terms.labels.values()))
    if any(defused(text) != text for text in shown):
        return None
    is_shell = bool(op.get("shell"))
    timeout = op.get("timeout")
    texts = {
        "kind": _OF_COMMAND,
        "command": " ".join(map(str, argv)) if is_shell else shlex.join(map(str, argv)),
        "shell": "yes" if is_shell else "",
        "locks": " ".join(name if mode == "exclusive" else f"{name}:{mode}" for name, mode in locks.items()),
        "node": str(op.get("node") or ""),
        "name": terms.name,
        "labels": shlex.join(f"{key}={value}" for key, value in terms.labels.items()),
        "priority": names[0],
        "reason": str(reasons[0][1]) if reasons else "",
        "timeout": seconds_text(timeout) if isinstance(timeout, int | float) else "",
        "cwd": str(op.get("cwd") or ""),
        "user": str(op.get("user") or ""),
        "env": shlex.join(f"{key}={value}" for key, value in env.items()),
    }
    # a field of one line would lose their ends
    has_lines = any("\n" in text for name, text in texts.items() if name != "command")
    return None if has_lines else texts


def seconds_text(seconds: float) -> str:
    """The seconds, all digits of them, as `read_duration` reads them."""
    return str(int(seconds)) if float(seconds).is_integer() else repr(seconds)


def _as_plan(terms: JobTerms, ops: Sequence[Mapping[str, object]]) -> dict[str, str]:
    told = {"name": terms.name, "labels": dict(terms.labels), "use": {use.key: use.count for use in terms.uses}}
    job = {**{key: value for key, value in told.items() if value}, "ops": [without_unset(op) for op in ops]}
    text = json.dumps({"jobs": [job]}, indent=2, ensure_ascii=False)
    # the escapes of JSON, which a page shows as they are
    safe = "".join(each if each == "\n" or defused(each) == each else f"\\u{ord(each):04x}" for each in text)
    return {"kind": _OF_PLAN, "plan": safe}


def _look(place: int, job: NewJob) -> JobLook:
    parsed = [parse_opcode(op) for op in job.ops]
    facts: list[tuple[str, str]] = []
    locks = {name: mode for op in job.ops if isinstance(found := op.get("locks"), dict) for name, mode in found.items()}
    if locks:
        facts.append(("locks", ", ".join(f"{name} ({mode})" for name, mode in locks.items())))
    nodes = dict.fromkeys(str(op["node"]) for op in job.ops if op.get("node"))
    if nodes:
        facts.append(("node", ", ".join(nodes)))
    if job.labels:
        facts.append(("labels", ", ".join(f"{key}={value}" for key, value in job.labels.items())))
    if job.begin_at is not None:
        facts.append(("not before", bare_clock(job.begin_at)))
    depends = [_waits_for(place, each) for op in job.ops for each in _listed(op.get("depends"))]
    if depends:
        facts.append(("after", ", ".join(depends)))
    return JobLook(place, job.name, tuple(summary(op) for op in parsed), tuple(facts))


def _listed(value: object) -> Sequence[object]:
    return value if isinstance(value, list | tuple) else ()


def _waits_for(place: int, dependency: object) -> str:
    match dependency:
        case [int() as target, list() as states]:
            which = f"number {place + target}" if target < 0 else f"job {target}"
            ends = " or ".join(str(state) for state in states) if len(states) < len(FINAL_NAMES) else "any end"
            return f"{which} ({ends or 'its end'})"
        case _:
            return str(dependency)[:60]
