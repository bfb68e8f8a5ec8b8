"""What is not well in a cluster, in words."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

import attrs
import orjson

from cli.connection import ask_luxid, ask_wconfd, open_luxid
from cli.filter.list import rules_in_order
from common.errors import GantryError
from common.health import (
    Finding,
    descriptor_findings,
    disk_findings,
    lag_findings,
    luxid_findings,
    queue_findings,
    schedule_findings,
    watch_findings,
)
from common.settings import Settings
from common.system.processuse import ProcessUse
from common.wire import structure
from protocol.luxi.daemon import QUEUE_VERDICTS, CheckQueueCopies, LuxidHealth, QueueVerdict, ReadHealth
from protocol.luxi.queries import QUEUE_LAGS, QueryConfigValues, QueueLag
from protocol.luxi.queue import ListSchedules
from protocol.metrics import DaemonMetrics
from protocol.wconfd.daemon import ConfigVerdict, ReadWconfdMetrics, VerifyConfigCopies

# What the master candidates lack of the queue, in words.


def ask_lags() -> Sequence[QueueLag] | None:
    """What each candidate lacks now; empty: all have everything; None: the queue is not copied."""
    (value,) = ask_luxid(QueryConfigValues((QUEUE_LAGS,)))
    return None if value is None else structure(value, tuple[QueueLag, ...], QUEUE_LAGS)


def lag_words(lag: QueueLag) -> str:
    if not lag.files:
        since = f"for {lag.seconds:.0f} s it is not known what node '{lag.node}' lacks of the queue"
        return f"{since}: {lag.failure or 'the files are being compared'}"
    count = f"{lag.files} file{'' if lag.files == 1 else 's'}"
    lacks = f"node '{lag.node}' lacks {count} of the queue for {lag.seconds:.0f} s"
    return f"{lacks}: {lag.failure}" if lag.failure else lacks


def lags_json(lags: Sequence[QueueLag]) -> object:
    return [attrs.asdict(lag) for lag in lags]


# Whether the copies on other nodes are the master's, in words.


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
    return asked(lambda: ask_wconfd(VerifyConfigCopies(asks=False))) or ()


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


# What is not well, from what the daemons tell, for `gantry status` and `gnt-cluster verify`.


T = TypeVar("T")
# seconds after which a daemon counts as silent: it is stopped, or its disk hangs; luxid waits for no disk longer than 5
ANSWER_S: Final = 10.0


def find_problems(settings: Settings, *, is_wconfd_silent: bool = False) -> list[Finding]:
    """All that the daemons of this node tell this user; what he may not ask is left out.

    Args: is_wconfd_silent: whether it is not waited for once more.
    """
    return list(_problems(settings, is_wconfd_silent=is_wconfd_silent))


def as_json(findings: Sequence[Finding]) -> list[dict[str, str]]:
    return [
        {"level": each.level.word, "what": each.what, "text": each.text, "remedy": each.remedy} for each in findings
    ]


def _problems(settings: Settings, *, is_wconfd_silent: bool) -> Iterator[Finding]:
    told = asked(_ask_health)
    if told is not None:
        wconfd = None if is_wconfd_silent else asked(lambda: ask_wconfd(ReadWconfdMetrics(), timeout_s=ANSWER_S))
        yield from _of_daemons(told, wconfd, settings)
        # luxid asks wconfd for these, and for the schedules
        rules = [] if is_wconfd_silent else asked(lambda: rules_in_order(timeout_s=ANSWER_S)) or []
        pausing = [_rule_words(rule) for rule in rules if rule["action"] in ("PAUSE", ["PAUSE"])]
        is_drained = bool((asked(lambda: ask_luxid(QueryConfigValues(("drain_flag",)))) or [False])[0])
        yield from queue_findings(is_drained=is_drained, pausing=pausing)
        yield from lag_findings({lag.node: lag.seconds for lag in asked(ask_lags) or ()}, settings.health)
        views = () if is_wconfd_silent else asked(lambda: ask_luxid(ListSchedules(0), timeout_s=ANSWER_S)) or ()
        yield from schedule_findings({view.schedule.name: view.stopped for view in views if view.stopped})


def _ask_health() -> LuxidHealth:
    # a luxid that is away is told otherwise, and not waited for
    with open_luxid(is_patient=False) as luxid:
        return luxid.call(ReadHealth(), timeout_s=ANSWER_S)


def _of_daemons(told: LuxidHealth, wconfd: DaemonMetrics | None, settings: Settings) -> Iterator[Finding]:
    yield from disk_findings(told.rooms, settings.health)
    processes: Mapping[str, ProcessUse] = {"luxid": told.process}
    if wconfd is not None:
        processes = {**processes, "wconfd": wconfd.process}
    yield from descriptor_findings(processes, settings.health)
    yield from watch_findings(processes)
    yield from luxid_findings(
        lost_files=told.lost_files,
        damaged_files=told.damaged_files,
        unread_jobs=told.unread_jobs,
        lost_outputs=told.lost_outputs,
        history_behind=told.history_behind,
        given_up=told.given_up,
        rules_off=told.rules_off,
    )


def _rule_words(rule: Mapping[str, object]) -> str:
    """`UUID ("the mirror is down")`."""
    match rule.get("reason_trail"):
        case [[_, str(text), *_], *_] if text:
            return f"{rule['uuid']} ({orjson.dumps(text).decode()})"
        case _:
            return str(rule["uuid"])


def asked(ask: Callable[[], T]) -> T | None:
    """What a daemon tells; None: it cannot be asked, or does not tell this user."""
    try:
        return ask()
    except (GantryError, OSError):
        return None
