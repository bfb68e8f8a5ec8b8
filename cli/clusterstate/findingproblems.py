"""What is not well, from what the daemons tell, for `gantry status` and `gnt-cluster verify`."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

import orjson

from cli.clusterstate.queuelags import ask_lags
from cli.connection import ask_luxid, ask_wconfd, open_luxid
from cli.filter.rulenames import rules_in_order
from common.errors import GantryError
from common.health.findings import (
    Finding,
    RoomFacts,
    descriptor_findings,
    disk_findings,
    lag_findings,
    luxid_findings,
    queue_findings,
    schedule_findings,
    watch_findings,
)
from common.metrics.process import ProcessUse
from common.settings import Settings
from protocol.luxi.cluster import QueryConfigValues
from protocol.luxi.daemon.health import LuxidHealth, ReadHealth
from protocol.luxi.schedules import ListSchedules
from protocol.wconfd.metrics import ReadMetrics

T = TypeVar("T")
# seconds for which luxid is waited for; it waits for no disk longer than 5
_ANSWER_S: Final = 10.0


def find_problems(settings: Settings) -> list[Finding]:
    """All that the daemons of this node tell this user; what he may not ask is left out."""
    return list(_problems(settings))


def as_json(findings: Sequence[Finding]) -> list[dict[str, str]]:
    return [
        {"level": each.level.word, "what": each.what, "text": each.text, "remedy": each.remedy} for each in findings
    ]


def _problems(settings: Settings) -> Iterator[Finding]:
    told = _asked(_ask_health)
    if told is not None:
        yield from _of_luxid(told, settings)
        rules = _asked(rules_in_order) or []
        pausing = [_rule_words(rule) for rule in rules if rule["action"] in ("PAUSE", ["PAUSE"])]
        is_drained = bool((_asked(lambda: ask_luxid(QueryConfigValues(("drain_flag",)))) or [False])[0])
        yield from queue_findings(is_drained=is_drained, pausing=pausing)
        yield from lag_findings({lag.node: lag.seconds for lag in _asked(ask_lags) or ()}, settings.health)
        views = _asked(lambda: ask_luxid(ListSchedules(0))) or ()
        yield from schedule_findings({view.schedule.name: view.stopped for view in views if view.stopped})


def _ask_health() -> LuxidHealth:
    # a luxid that is away is told otherwise, and not waited for
    with open_luxid(is_patient=False) as luxid:
        return luxid.call(ReadHealth(), timeout_s=_ANSWER_S)


def _of_luxid(told: LuxidHealth, settings: Settings) -> Iterator[Finding]:
    rooms = [
        RoomFacts(room.path, room.free_bytes, room.size_bytes, room.free_files, room.files, room.failure, room.is_gone)
        for room in told.rooms
    ]
    yield from disk_findings(rooms, settings.health)
    processes: Mapping[str, ProcessUse] = {"luxid": told.process}
    wconfd = _asked(lambda: ask_wconfd(ReadMetrics()))
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


def _asked(ask: Callable[[], T]) -> T | None:
    """None: it cannot be asked, or does not tell this user."""
    try:
        return ask()
    except (GantryError, OSError):
        return None
