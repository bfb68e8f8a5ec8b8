"""Pages of files: those of an installation, and those that people write."""

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Final

import attrs

from cli.manual.opcodes import type_words
from cli.manual.page import (
    Block,
    Code,
    Definition,
    Definitions,
    Literal,
    ManualPage,
    Paragraph,
    Section,
    capital,
    described,
    paragraph,
    see_also,
    sentence,
)
from common.daemons import DAEMONS
from common.errors import NotFound
from common.objects.config import Cluster, Config, Disk, Instance, Network, Node, NodeGroup
from common.objects.filter import FilterRule
from common.paths import Paths, QueuePaths, RunPaths
from common.reference import notes_of
from common.resources import Resource
from common.schedules.schedule import Schedule, ScheduleRun
from common.settings import CLASSES
from common.settingsfile import ALL_READERS, SYSTEM_FILE, SYSTEM_PATHS
from common.webaccess.sessions import KeptSession
from protocol.plans.jobs import COMMAND, ENDS, OPCODES, PRIORITY, REASON, RUN, SHELL, TERMS, PlanField

# Plans: files with jobs, from the keys that `gnt-job submit` reads.


_ABOUT_PLANS: Final = (
    "A plan is a file of several jobs, in YAML or JSON, that 'gnt-job submit' submits together: all or none. A "
    "fault is told with its line and column, and nothing is submitted. 'gnt-job submit --schema' prints the form as "
    "JSON Schema, for editors.",
    "At the top `jobs` is the list of jobs, and `defaults` has keys for all of them; a key of a job wins, and "
    "labels are joined. Keys that begin with `x-` are for the writer of the file, such as anchors of YAML, and are "
    "not read.",
    "Each job has exactly one of `run`, `shell` and `ops`.",
)
_PLAN_EXAMPLE: Final = """\
defaults: {labels: {team: web}, retries: 2}
jobs:
  - name: backup
    run: [tar, -czf, /backup/web1.tgz, /srv]
    locks: {node/web1: exclusive, node-res/store: shared}
  - name: upgrade
    after: backup              # or {backup: failure}, [backup, 17]
    shell: apt-get --yes upgrade && reboot-if-needed
    locks: node/web1
    timeout: 30m
  - after: {backup: failure}
    run: [logger, the backup of web1 failed]"""
_AFTER: Final = (
    "Jobs after whose success it begins: names of jobs above, or ids; a list of them; or names and ids with the way "
    f"they end: {', '.join(sorted(ENDS))}."
)
_TYPES: Final = {
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "names with values",
}


def plan_page() -> ManualPage:
    return ManualPage(
        "gantry-plan",
        5,
        "files with jobs to submit",
        (
            Section("Description", tuple(map(paragraph, _ABOUT_PLANS))),
            Section("Work", (_keys({"run": RUN, "shell": SHELL, "ops": OPCODES}),)),
            Section("Order", (Definitions(described({"after": _AFTER})),)),
            Section("Job", (_keys({**TERMS, "priority": PRIORITY, "reason": REASON}),)),
            Section("Command", (paragraph("For `run` and `shell`:"), _keys(COMMAND))),
            Section("Examples", (Code(_PLAN_EXAMPLE), Code("gnt-job submit --wait plan.yaml"))),
            see_also("gnt-job-submit(1), gnt-job-run(1), gantry-opcodes(7)"),
        ),
    )


def _keys(fields: Mapping[str, PlanField]) -> Definitions:
    return Definitions(
        described({key: f"{each.help} {capital(_schema_words(each.schema))}." for key, each in fields.items()})
    )


def _schema_words(schema: Mapping[str, object]) -> str:
    """What a value may be, in words."""
    match schema:
        case {"anyOf": [*members]}:
            return " or ".join(dict.fromkeys(_schema_words(each) for each in members if isinstance(each, Mapping)))
        case {"enum": [*values]}:
            return " or ".join(map(str, values))
        case {"type": [*names]}:
            return " or ".join(_TYPES[str(name)] for name in names)
        case {"type": str(name)}:
            return _TYPES[name]
        case _:
            return "any value"


# The page of an installation's files: paths from the class of paths, forms from the classes of what is kept.


_ABOUT: Final = (
    "An installation has three folders: data that survives a restart of the machine, what need not survive it, and "
    "logs. The "
    "paths below are those of the system's installation; in a private one they are `lib`, `run` and `log` in its "
    "folder. "
    "In a Ganeti cluster the folders are Ganeti's (`[paths]` in gantry.toml(5)), and the names are the same. What is "
    "called ours "
    "is a file that Ganeti does not have.",
    "The daemons alone write these files. Read them as you like; change none of them while a daemon runs. Files of "
    "state are replaced "
    "as a whole, synced, by a new file of the same name, so that a reader sees the old one or the new one.",
)
_MODULE: Final = re.compile(r" \(`common\.[\w.]+`\)")
# folders of what need not survive a restart
_RUN: Final = (SYSTEM_PATHS.run, SYSTEM_PATHS.launcher_socket.parent)
# the job whose files are shown
_EXAMPLE_JOB: Final = 17
JOB_KEYS: Final[Mapping[str, str]] = {
    "id": "The number of the job.",
    "ops": "Its opcodes, in their order: objects with the keys below.",
    "received_timestamp": "When it was submitted: seconds and microseconds, as all times here; null while it is not "
    "known.",
    "start_timestamp": "When its process was first started.",
    "end_timestamp": "When it ended.",
    "livelock": "Path of the file that its process keeps locked while it lives. Absent before the first process is "
    "started.",
    "process_id": "The process.",
}
OPCODE_KEYS: Final[Mapping[str, str]] = {
    "input": "The opcode: `OP_ID` and its parameters, gantry-opcodes(7). Name, labels and other terms of the job are "
    "in the reason "
    "trail of the first one.",
    "status": "queued, waiting, canceling, running, canceled, success or error.",
    "result": "What it gave, or its error.",
    "log": "Lines `[serial, [seconds, microseconds], kind, message]`.",
    "priority": "-20 to 19; less is sooner.",
    "start_timestamp": "When it began to wait for its locks.",
    "exec_timestamp": "When it began to work.",
    "end_timestamp": "When it ended.",
}
JOB: Final = """\
{"id":17,"ops":[{"input":{"OP_ID":"OP_TEST_DELAY","duration":5.0},
  "status":"queued","result":null,"log":[],"priority":0,
  "start_timestamp":null,"exec_timestamp":null,"end_timestamp":null}],
 "received_timestamp":[1795400000,0],"start_timestamp":null,"end_timestamp":null}"""
LOCKS: Final = """\
[[[[17,"/run/gantry/livelocks/job_17_1795400000",4711],[["node/web1","exclusive"]]]],
 [[0,[18,"/run/gantry/livelocks/job_18_1795400001",4712],[["node/web1","shared"]]]]]"""
MAY_RUN: Final = """\
{"guarded":[[[17,"/run/gantry/livelocks/job_17_1795400000",4711],
  [["web1","17-0-1"]],1795400100.0]]}"""
_ROWS: Final = (
    "A JSON object with `version` and the list `{noun}`, one row a line. It is there as soon as there is a row."
)
_CONFIGURATION: Final = (Config, Cluster, Node, NodeGroup, Network, Instance, Disk, FilterRule)


def files_page() -> ManualPage:
    return ManualPage(
        "gantry-files",
        5,
        "files of an installation, and their forms",
        (
            Section("Description", tuple(map(paragraph, _ABOUT))),
            Section("Data", (Definitions(tuple(_places((SYSTEM_PATHS.data,), Paths, QueuePaths))),)),
            Section("Running", (Definitions(tuple(_places(_RUN, RunPaths))),)),
            Section("Logs", (Definitions((*_logs(), *_places((SYSTEM_PATHS.log,), Paths))),)),
            Section("Forms", parts=tuple(_forms())),
            see_also("gantry.toml(5), gantry-plan(5), gantry-wconfd(8), gantry-ports(7), gantry(7)"),
        ),
    )


def _places(folders: Sequence[Path], *kinds: type) -> Iterator[Definition]:
    """The paths in these folders that the classes name, in order, each with the words of its class."""
    named = (found for kind in kinds for found in _named(kind))
    found = {path: text for path, text in named if any(path.is_relative_to(folder) for folder in folders)}
    for path, text in sorted(found.items()):
        yield Definition((Literal(str(path)),), (paragraph(text),))


def _named(kind: type) -> Iterator[tuple[Path, str]]:
    for name, member in vars(kind).items():
        if isinstance(member, property | cached_property):
            yield getattr(SYSTEM_PATHS, name), _words(member)
        elif inspect.isfunction(member) and list(inspect.signature(member).parameters) == ["self", "job_id"]:
            yield member(SYSTEM_PATHS, _EXAMPLE_JOB), f"{_words(member)} This one is of job {_EXAMPLE_JOB}."


def _words(member: object) -> str:
    """The first paragraph of its docstring, without the modules that it names."""
    text = " ".join(inspect.cleandoc(member.__doc__ or "").partition("\n\n")[0].split())
    return _MODULE.sub("", text)


def _logs() -> Iterator[Definition]:
    for daemon in DAEMONS:
        shared = ", and of the job processes" if daemon.name == "forkserver" else ""
        apart = f"; in {SYSTEM_PATHS.log}-{daemon.name} where it runs as {daemon.user}" if daemon.user else ""
        yield Definition(
            (Literal(str(SYSTEM_PATHS.log / daemon.log_file)),),
            (paragraph(f"The log of gantry-{daemon.name}{shared}{apart}."),),
        )


def _forms() -> Iterator[Section]:
    yield Section("queue/job-N", tuple(_job()))
    yield Section("locks.data", tuple(_locks()))
    yield Section("ghosts.data", tuple(_orphans()))
    yield Section(
        "schedules.data",
        (paragraph(_ROWS.format(noun="schedules")), _fields(Schedule), paragraph("A run:"), _fields(ScheduleRun)),
    )
    yield Section("resources.data", (paragraph(_ROWS.format(noun="resources")), _fields(Resource)))
    told = "Who has logged in to the web page. It opens no session: the ids are in the browsers alone."
    yield Section("sessions.data", (paragraph(told), paragraph(_ROWS.format(noun="sessions")), _fields(KeptSession)))
    yield Section("config.data", tuple(_configuration()))


def _job() -> Iterator[Block]:
    yield paragraph(
        "JSON with exactly Ganeti's keys, for live and for archived jobs. Keys that it does not know Gantry keeps."
    )
    yield Definitions(described(JOB_KEYS))
    yield paragraph("Keys of an opcode:")
    yield Definitions(described(OPCODE_KEYS))
    yield Code(JOB)


def _locks() -> Iterator[Block]:
    yield paragraph(
        "JSON as Ganeti's: a list of those who hold locks, and a list of the requests that wait, each with its "
        "priority. "
        "An owner is a job's number or the name of a program, the livelock of its process, and its pid."
    )
    yield Code(LOCKS)
    yield paragraph(
        "`locks.data.journal` beside it, which is ours, has what changed since: lines of the CRC-32 of all lines so "
        "far, and JSON. The "
        "first line names the digest of the `locks.data` that it continues. `[wconfd] lock_journal = false` does "
        "without it. "
        "`gantry-wconfd --check FILE` reads both."
    )


def _orphans() -> Iterator[Block]:
    yield paragraph(
        "Which locks stay held although their owner may be dead, because a command of it may still run: its node, the "
        "key of the "
        "command, and since when the owner is dead, or null."
    )
    yield Code(MAY_RUN)


def _configuration() -> Iterator[Block]:
    yield paragraph(
        "JSON with the objects of the cluster, in Ganeti's form; the keys of maps are UUIDs. Times are seconds since "
        "the epoch."
    )
    for kind in _CONFIGURATION:
        yield paragraph(f"{kind.__name__}:")
        yield _fields(kind)


def _fields(kind: type) -> Definitions:
    """The keys of a class of ours, with their types and the comments over them."""
    notes = notes_of(kind)
    return Definitions(tuple(_field(field, notes.get(field.name, "")) for field in attrs.fields(kind)))


def _field(field: "attrs.Attribute[object]", note: str) -> Definition:
    words = f"{type_words(field.type)}{f': {note}' if note else ''}"
    return Definition((Literal(field.name),), (paragraph(sentence(words)),))


# The page of gantry.toml: each key with its type and default from the classes, and the words of the sample.
#
# The sample is a file of the source tree, so this page is made there.


SAMPLE: Final = Path(__file__).parents[2] / "deploy" / "gantry.toml.sample"
_TABLE: Final = re.compile(r"^\[(\w+)\]$", re.MULTILINE)
_KEY: Final = re.compile(r"^#(\w+) = (.*)$")
# values that no setting may have, by their types: a check says then what it allows
_REFUSED: Final[Mapping[object, object]] = {int: -1, float: -1.0, str: "\0", tuple[str, ...]: ("\0",)}
_EXAMPLE: Final = """\
[luxid]
max_running_jobs = 20
[access]
read = ["@staff"]
submit = ["alice", "@web"]
[rapid]
enabled = true"""


@attrs.frozen
class Explained:
    """A piece of the sample: keys with their defaults, and the words above them."""

    comment: tuple[str, ...]
    # key -> default as TOML
    keys: Mapping[str, str]


def settings_page() -> ManualPage:
    return ManualPage(
        "gantry.toml",
        5,
        "settings of Gantry",
        (
            Section("Synopsis", (Code(f"{SYSTEM_FILE}\nDIR/gantry.toml"),)),
            Section("Description", tuple(_description())),
            Section("Tables", parts=tuple(_tables())),
            Section("Examples", (Code(_EXAMPLE),)),
            see_also("gantry(7), gantry-up(1), gantry-status(1)"),
        ),
    )


def _description() -> Iterator[Block]:
    yield paragraph(
        f"The daemons and the programs read `{SYSTEM_FILE}`; those of a private installation, with --root DIR or "
        "$GANTRY_ROOT, read `gantry.toml` in its folder. The form is TOML. Every key has a default, and the file may "
        "be empty or missing. An unknown key, or a value of a wrong type, is refused with its place, and the daemon "
        "does not start."
    )
    yield paragraph(
        "Daemons read the file when they start: restart them after a change. Running jobs go on. The programs read it "
        "at each start."
    )


def _tables() -> Iterator[Section]:
    for name, pieces in pieces_of(sample()).items():
        about, items = [piece for piece in pieces if not piece.keys], [piece for piece in pieces if piece.keys]
        words = [block for piece in about for block in blocks_of(piece.comment)]
        rows = tuple(_row(name, piece) for piece in items)
        yield Section(f"[{name}]", (*words, Definitions(rows)))


def sample() -> str:
    """The text of the sample. Raises: NotFound: there is no source tree."""
    try:
        return SAMPLE.read_text()
    except FileNotFoundError:
        raise NotFound(
            f"no file '{SAMPLE}'; this page is made in the source tree, and installed as a man page"
        ) from None


def pieces_of(text: str) -> Mapping[str, Sequence[Explained]]:
    """The pieces of each table of a sample."""
    _, *parts = _TABLE.split(text)
    return {name: list(_pieces(body)) for name, body in zip(parts[::2], parts[1::2], strict=True)}


def _pieces(body: str) -> Iterator[Explained]:
    for piece in body.strip("\n").split("\n\n"):
        lines = piece.strip("\n").splitlines()
        keys = {found[1]: found[2] for line in lines if (found := _KEY.match(line))}
        comment = tuple(line.removeprefix("#").removeprefix(" ") for line in lines if not _KEY.match(line))
        if comment or keys:
            yield Explained(comment, keys)


def blocks_of(comment: Sequence[str]) -> tuple[Block, ...]:
    """The words of a comment: paragraphs, and indented lines as they stand."""
    blocks: list[Block] = []
    words: list[str] = []
    code: list[str] = []
    for line in (*comment, ""):
        is_code = line.startswith("  ")
        if words and (is_code or not line):
            blocks.append(paragraph(" ".join(words)))
            words = []
        if code and line and not is_code:
            blocks.append(_code(code))
            code = []
        if is_code or (code and not line):
            code.append(line)
        elif line:
            words.append(line)
    return (*blocks, _code(code)) if code else tuple(blocks)


def _code(lines: Sequence[str]) -> Code:
    return Code("\n".join(line.removeprefix("  ") for line in lines).strip("\n"))


def _row(table: str, piece: Explained) -> Definition:
    term = [span for key in piece.keys for span in (Literal(key), ", ")][:-1]
    names = len(piece.keys) > 1
    facts = (
        Paragraph((*((Literal(key), ": ") if names else ()), *_fact(table, key, given)))
        for key, given in piece.keys.items()
    )
    return Definition(tuple(term), (*blocks_of(piece.comment), *facts))


def _fact(table: str, key: str, default: str) -> tuple[str | Literal, ...]:
    return (f"{kind_of(table, key)}; default ".capitalize(), Literal(default))


def kind_of(table: str, key: str) -> str:
    """What a key takes, in words: `a whole number, at least 0`."""
    if table == "paths":
        return "an absolute path"
    field = attrs.fields_dict(CLASSES[table])[key]
    kind = ALL_READERS[field.type][0]
    limit = _limit(field)
    return f"{kind}, {limit}" if limit else kind


def _limit(field: "attrs.Attribute[object]") -> str:
    refused = _REFUSED.get(field.type)
    if field.validator is None or refused is None:
        return ""
    try:
        field.validator(None, field, refused)
    except ValueError as error:
        return str(error).rpartition(" must be ")[2] if " must be " in str(error) else ""
    return ""
