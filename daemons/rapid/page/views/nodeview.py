"""The nodes of the cluster, as their page shows them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import attrs

from common.words.fields import JobRow, job_title
from common.words.times import duration
from daemons.rapid.page.views.frame import TextPart, job_href
from protocol.luxi.daemon import QueueVerdict
from protocol.luxi.queries import QueueLag
from protocol.wconfd.config import NodeBehind

# luxid's fields of a node, and the one that only its daemon knows
FIELDS: Final = ("name", "role", "group", "pip")
LIVE_FIELD: Final = "bootid"
# luxid's fields of a running job
RUNNING_FIELDS: Final = ("id", "status", "name", "summary", "node")
# jobs that a row names
_NAMED: Final = 5
# letter of a role -> the word, and what follows from it
_ROLES: Final = {
    "M": ("master", "the queue and its jobs run here"),
    "C": ("candidate", "may become the master"),
    "R": ("regular", ""),
    "D": ("drained", "takes nothing new"),
    "O": ("offline", "is not asked for anything"),
}
_CANDIDATE: Final = "C"
_MASTER: Final = "M"
_OFFLINE: Final = "O"


@attrs.frozen
class ConfiguredNode:
    """A node as the configuration has it."""

    name: str
    # a letter, as Ganeti has it
    role: str
    group: str
    address: str


@attrs.frozen
class NodesNow:
    nodes: tuple[ConfiguredNode, ...]
    # whether anything is copied to other nodes; else there are no node daemons
    is_copied: bool
    # names of the nodes whose daemons replied; None: they were asked, and the reply took too long
    answering: frozenset[str] | None
    lags: Mapping[str, QueueLag]
    verdicts: Mapping[str, QueueVerdict]
    behind: Mapping[str, NodeBehind]
    # why it is not known what nodes lack of the configuration; "": it is
    unknown: str
    # None: the visitor may not see jobs
    running: tuple[JobRow, ...] | None


@attrs.frozen
class StatusText:
    """A text, and whether it is good or bad."""

    text: str
    # class of the style sheet: good, bad, muted
    kind: str = "muted"


@attrs.frozen
class NodeTableRow:
    name: str
    address: str
    group: str
    role: str
    note: str
    daemon: StatusText
    # what it has of the queue and of the configuration, and what was set aside there
    copies: tuple[StatusText, ...]
    # the first jobs that run there, and how many more
    jobs: tuple[TextPart, ...]
    more: int


def node_lines(now: NodesNow) -> tuple[NodeTableRow, ...]:
    """The master first, then by name."""
    ordered = sorted(now.nodes, key=lambda each: (each.role != _MASTER, each.name))
    return tuple(_line(node, now) for node in ordered)


def _line(node: ConfiguredNode, now: NodesNow) -> NodeTableRow:
    role, note = _ROLES.get(node.role, (node.role, ""))
    jobs = _jobs_on(node, now.running or ())
    return NodeTableRow(
        node.name,
        node.address,
        node.group,
        role,
        note,
        _daemon(node, now),
        tuple(_copies(node, now)),
        tuple(TextPart(f"job {row['id']}", job_href(row["id"]), job_title(row, ", ")) for row in jobs[:_NAMED]),
        len(jobs[_NAMED:]),
    )


def _jobs_on(node: ConfiguredNode, running: Sequence[JobRow]) -> list[JobRow]:
    """Those of no node run on the master."""
    return [row for row in running if row["node"] == node.name or (not row["node"] and node.role == _MASTER)]


def _daemon(node: ConfiguredNode, now: NodesNow) -> StatusText:
    if not now.is_copied:
        return StatusText("none is needed: nothing is copied")
    if node.role == _OFFLINE:
        return StatusText("not asked")
    if now.answering is None:
        return StatusText("not known: no reply in time", "bad")
    return StatusText("answers", "good") if node.name in now.answering else StatusText("does not answer", "bad")


def _copies(node: ConfiguredNode, now: NodesNow) -> Iterator[StatusText]:
    if not now.is_copied:
        yield StatusText("nothing is copied")
        return
    if node.role == _OFFLINE:
        yield StatusText("gets none")
        return
    yield _queue(node, now)
    yield _configuration(node, now)
    verdict = now.verdicts.get(node.name)
    if verdict is not None and verdict.lost:
        files = f"{verdict.lost:,} {'file' if verdict.lost == 1 else 'files'}"
        yield StatusText(f"{files} set aside: the master has lost them; gnt-cluster verify tells more", "bad")


def _queue(node: ConfiguredNode, now: NodesNow) -> StatusText:
    if node.role == _MASTER:
        return StatusText("queue: its own")
    if node.role != _CANDIDATE:
        return StatusText("queue: none, as it is no candidate")
    lag = now.lags.get(node.name)
    if lag is None:
        return StatusText("queue: complete", "good")
    why = f": {lag.failure}" if lag.failure else ""
    if not lag.files:
        return StatusText(f"queue: not known for {duration(lag.seconds)}{why or ', it is being compared'}", "bad")
    files = f"{lag.files:,} {'file' if lag.files == 1 else 'files'}"
    return StatusText(f"queue: behind by {files} for {duration(lag.seconds)}{why}", "bad")


def _configuration(node: ConfiguredNode, now: NodesNow) -> StatusText:
    if now.unknown:
        return StatusText(f"configuration: not known: {now.unknown}", "bad")
    behind = now.behind.get(node.name)
    if behind is None:
        return StatusText("configuration: complete", "good")
    why = f": {behind.reason}" if behind.reason else ""
    return StatusText(f"configuration: lacks {', '.join(behind.lacks)} for {duration(behind.behind_s)}{why}", "bad")
