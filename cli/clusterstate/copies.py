"""Whether the copies on other nodes are the master's, in words."""

from collections.abc import Sequence
from typing import Final

import attrs

from cli.connection import ask_luxid, ask_wconfd
from common.errors import GantryError
from common.wire import structure
from protocol.luxi.cluster import QueryConfigValues
from protocol.luxi.daemon.copies import QUEUE_VERDICTS, CheckQueueCopies, QueueVerdict
from protocol.wconfd.copies import ConfigVerdict, VerifyConfigCopies

_BEYOND: Final = "keys of submissions and histories of waits"
# names of nodes in one line of the status
_MOST_NAMES: Final = 3


@attrs.frozen
class CopyFindings:
    """What a comparison with the other nodes has shown."""

    # what is wrong, a text for each node
    problems: list[str]
    # what an operator should know
    notes: list[str]


def check_queue() -> CopyFindings | None:
    """Compare the queue with all candidates; None: it is not copied. Raises: as `ask_luxid`."""
    verdicts = ask_luxid(CheckQueueCopies())
    if verdicts is None:
        return None
    problems = [text for verdict in verdicts if (text := _problem(verdict)) is not None]
    problems += [_lost_words(verdict) for verdict in verdicts if verdict.lost]
    same = [verdict.node for verdict in verdicts if verdict.failure is None and not verdict.differ]
    notes = [same_words(same)] if same else []
    notes += [
        f"node '{verdict.node}' runs Ganeti's node daemon: it does not get {_BEYOND}; "
        "after a move of the master there, a client that repeats a submission may submit twice"
        for verdict in verdicts
        if not verdict.takes_ours
    ]
    return CopyFindings(problems, notes)


def check_config() -> CopyFindings:
    """Compare the configuration with all other nodes. Raises: as `ask_wconfd`."""
    verdicts = ask_wconfd(VerifyConfigCopies())
    problems = [text for verdict in verdicts if (text := _problem(verdict)) is not None]
    same = [verdict.node for verdict in verdicts if verdict.failure is None and not verdict.differ]
    return CopyFindings(problems, [same_words(same)] if same else [])


def last_verdicts() -> Sequence[QueueVerdict] | None:
    """What the last comparisons have shown; None: the queue is not copied. Raises: as `ask_luxid`."""
    (value,) = ask_luxid(QueryConfigValues((QUEUE_VERDICTS,)))
    return None if value is None else structure(value, tuple[QueueVerdict, ...], QUEUE_VERDICTS)


def same_words(nodes: Sequence[str]) -> str:
    return f"same on {', '.join(nodes)}"


def differ_words(node: str, count: int, files: Sequence[str]) -> str:
    more = ", ..." if count > len(files) else ""
    return f"node '{node}' differed in {count} file{'' if count == 1 else 's'}: {', '.join(files)}{more}"


def last_config_verdicts() -> Sequence[ConfigVerdict]:
    """What the last comparisons of the configuration have shown; empty also if this user may not ask."""
    try:
        return ask_wconfd(VerifyConfigCopies(asks=False))
    except (GantryError, OSError):
        return ()


def status_words(verdicts: Sequence[QueueVerdict] | Sequence[ConfigVerdict]) -> str:
    """A few words about the last comparisons; what differed then, as on new nodes, may have been sent since."""
    compared = [verdict for verdict in verdicts if verdict.at is not None]
    differed = [verdict.node for verdict in compared if verdict.differ]
    words = []
    if differed:
        words.append(f"differed on {_few(differed)} when last compared ('gnt-cluster verify' compares anew)")
    elif compared:
        words.append(f"same on {_count(len(compared))} when last compared")
    if open_count := len(verdicts) - len(compared):
        words.append(f"not compared with {_count(open_count)}")
    return "; ".join(words)


def _few(nodes: Sequence[str]) -> str:
    return ", ".join(nodes) if len(nodes) <= _MOST_NAMES else _count(len(nodes))


def _count(nodes: int) -> str:
    return f"{nodes} node{'' if nodes == 1 else 's'}"


def verdicts_json(verdicts: Sequence[QueueVerdict] | Sequence[ConfigVerdict] | None) -> object:
    return [attrs.asdict(verdict) for verdict in verdicts or ()]


def _lost_words(verdict: QueueVerdict) -> str:
    more = ", ..." if verdict.lost > len(verdict.lost_files) else ""
    count = f"{verdict.lost} file{'' if verdict.lost == 1 else 's'}"
    return (
        f"node '{verdict.node}' has set aside {count} that the master has lost: {', '.join(verdict.lost_files)}{more}; "
        "'gantry repair' tells more, and fetches them"
    )


def _problem(verdict: QueueVerdict | ConfigVerdict) -> str | None:
    if verdict.failure is not None:
        return f"node '{verdict.node}' could not be compared: {verdict.failure}"
    if verdict.differ:
        return f"{differ_words(verdict.node, verdict.differ, verdict.files)}; they are being sent"
    return None
