"""What of two ends of one call must be the same: the exit code, standard output, and of what kind standard error is.

Drawn values (times, uuids, numbers of jobs) are replaced on both sides. What our programs do otherwise everywhere is in
`as_ours`, a rule for each, with its reason; what they do otherwise in one call is in the tables of `differences`.
"""

import json
import re
from typing import Any, Final

import attrs

from tests.cli.command import Ended

_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_DRAWN: Final = (
    (re.compile(r"\b(Mon|Tue|Wed|Thu|Fri|Sat|Sun) \w{3} +\d+ \d\d:\d\d:\d\d \d{4}"), "CTIME"),
    (re.compile(r"\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?"), "CLOCK"),
    (_UUID, "UUID"),
    (re.compile(r"^JobID: \d+$", re.MULTILINE), "JobID: N"),
    (re.compile(r"^(Submitted jobs|Waiting for job) \d[\d, ]*", re.MULTILINE), r"\1 N "),
    # what only one of the two has: folders on nodes, and a limit of ours
    (
        re.compile(
            r"^  (OS search path|ExtStorage Providers search path|maximal number of jobs that).*\n", re.MULTILINE
        ),
        "",
    ),
)
# the greatest sizes of an instance policy before the least ones
_MOST_FIRST: Final = re.compile(r"- max/(\d+):\n((?: {10}.*\n)+) {8}min/\1:\n((?: {10}.*\n)+)")
# first words of Ganeti's errors
_FAILURES: Final = ("Failure: ", "Parameter Error: ", "Unhandled ", "Error: ", "Job", "Traceback ", "Usage\n")
_WRONG_ARGUMENTS: Final = re.compile(r"Error: Command \S+ (expects|requires) ")


@attrs.frozen
class Meaning:
    """What counts of an end."""

    code: int
    out: str
    # nothing; error; warning; or the text, of another kind
    err: str


def meaning(ended: Ended) -> Meaning:
    return Meaning(ended.code, _out(ended.out), _err(ended.err))


def configuration(text: str) -> Meaning:
    """A configuration without times and ids: objects have their names where they have ids.

    The changes of the whole, of the cluster and of groups are not counted: Ganeti's counts also that a group has other
    nodes, and writes the whole more often.
    """
    value = json.loads(text)
    names = {
        uuid: f"{table}/{each['name']}"
        for table in ("nodes", "nodegroups", "networks", "instances")
        for uuid, each in value.get(table, {}).items()
    }
    for uncounted in (value, value["cluster"], *value["nodegroups"].values()):
        del uncounted["serial_no"]
    shown = json.dumps(_lasting(value))
    by_name = json.loads(re.sub(_UUID, lambda found: names.get(found[0], "UUID"), shown))
    return Meaning(0, json.dumps(by_name, indent=1, sort_keys=True), "")


def _lasting(value: Any) -> Any:
    match value:
        case dict():
            return {key: _lasting(each) for key, each in value.items() if key not in ("ctime", "mtime", "uuid")}
        case list():
            return [_lasting(each) for each in value]
        case _:
            return value


def as_ours(theirs: Ended) -> Meaning:
    """Ganeti's end as our programs have it, by what is otherwise everywhere."""
    told = _with_log_aside(meaning(theirs))
    if _WRONG_ARGUMENTS.match(theirs.err):
        # a wrong command line ends with 2 in all our programs, as Ganeti's own with unknown options
        return attrs.evolve(told, code=2)
    return told


def _with_log_aside(told: Meaning) -> Meaning:
    """The lines of a job's log stand in standard error in ours; beside an error they do not count."""
    lines = told.out.splitlines(keepends=True)
    log = "".join(line for line in lines if line.startswith("CTIME "))
    return attrs.evolve(told, out="".join(line for line in lines if not line.startswith("CTIME ")), err=told.err or log)


def _out(text: str) -> str:
    """Text without drawn values, and without what has no order in Ganeti's.

    Columns have two blanks between in our tables, and one in Ganeti's; an empty cell is a minus sign in ours. Values
    with a structure are JSON in ours, and in Ganeti's the text of Python.
    """
    for pattern, word in _DRAWN:
        text = pattern.sub(word, text)
    lines = [_line(line) for line in text.split("\n")]
    places = [place for place, line in enumerate(lines) if "-ratio: " in line]
    for place, line in zip(places, sorted(lines[place] for place in places), strict=True):
        lines[place] = line
    return _MOST_FIRST.sub(r"- min/\1:\n\3        max/\1:\n\2", "\n".join(lines))


def _line(line: str) -> str:
    start = len(line) - len(line.lstrip(" "))
    body = re.sub(r" {2,}", " ", re.sub(r"( +(-|\[\]))+$", "", line.strip(" ")))
    if "{" in body or "[" in body:
        body = re.sub(r"(?<=[,:]) ", "", body.replace("'", '"').replace("False", "false").replace("True", "true"))
    body = re.sub(r"(?<=\{)[^{}\[\]]+(?=\})", lambda found: _sorted(found[0]), body)
    return " " * start + re.sub(r"(?<!\S)[^ {}\[\]=]+,[^ {}\[\]=]+(?!\S)", lambda found: _sorted(found[0]), body)


def _sorted(parts: str) -> str:
    return ",".join(sorted(parts.split(",")))


def _err(text: str) -> str:
    """The kind of what stands in standard error: the words of errors are ours, and tell the next step."""
    if text.startswith(("error: ", *_FAILURES)):
        return "error"
    if text.lower().startswith("warning: "):
        return "warning"
    return _out(text)
