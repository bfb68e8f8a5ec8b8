"""What the master candidates say of this node, and whether its copies are theirs. Both ask confd.

Source: confd.md 4 and 6; DESIGN section 12.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Final

import orjson

from common.daemons import NodeKind
from common.errors import GantryError
from common.nodes.nodeplace import place_of
from common.settings import Settings
from common.system.stamps import Stamp, stamp_of
from common.wire import structure
from daemons.mond.collectors.base import Collector, Measured
from daemons.mond.core.reports import Category, CollectorStatus, Number, ReportKind, StatusCode, worst
from protocol.blocking import BlockingClient
from protocol.confd.client import ask_confd, candidates, read_key
from protocol.confd.gathering import GatheredReplies
from protocol.confd.questions import Argument, ConfdRole, Question
from protocol.luxi.queries import QUEUE_LAGS, QueryConfigValues, QueueLag

# time for replies of confd, and of luxid
_ASK_S: Final = 3.0
# roles in which a node does not do its work
_STATUSES: Final = {
    ConfdRole.OFFLINE: CollectorStatus(StatusCode.BAD, "the cluster takes this node for offline"),
    ConfdRole.DRAINED: CollectorStatus(StatusCode.REPAIRED, "this node is drained"),
}


class _Asking(Collector):
    """A collector that asks all candidates."""

    CATEGORY: ClassVar[Category | None] = Category.DAEMON
    KIND: ClassVar[ReportKind] = ReportKind.STATUS
    INTERVAL_S: ClassVar[float] = 15.0
    LIMIT_S: ClassVar[float] = 10.0

    def ask(self, question: Question, argument: Argument = None) -> GatheredReplies:
        """Raises: GantryError, OSError: there is no key, or no candidate is known."""
        paths, port = self.settings.paths, self.settings.confd.port
        peers = candidates(paths, port)
        return ask_confd(read_key(paths), peers, question, argument, asks_all=True, timeout_s=_ASK_S)


class NodeRoleCollector(_Asking):
    """The role of this node, by the candidates."""

    NAME: ClassVar[str] = "node-role"

    def collect(self) -> Measured:
        outcome = self.ask(Question.NODE_ROLE, self.settings.cluster.own_name)
        replied, silent = len(outcome.replies), [str(peer) for peer in outcome.silent]
        role, status = _role(outcome)
        data = {
            "role": None if role is None else role.name.lower(),
            "replied": replied,
            "silent": silent,
            "consistent": outcome.is_consistent,
        }
        numbers = (
            Number("gantry_node_candidates_replied", replied, help="Candidates whose confd has replied"),
            Number("gantry_node_candidates_silent", len(silent), help="Candidates whose confd is silent"),
        )
        return Measured(data, numbers, status)


def _role(outcome: GatheredReplies) -> tuple[ConfdRole | None, CollectorStatus]:
    try:
        answer = outcome.answer()
    except GantryError as error:
        return None, CollectorStatus(StatusCode.UNKNOWN, error.message)
    role = next((role for role in ConfdRole if role == answer), None)
    return role, _role_status(role)


def _role_status(role: ConfdRole | None) -> CollectorStatus:
    if role is None:
        return CollectorStatus(StatusCode.UNKNOWN, "the candidates know no such role")
    return _STATUSES.get(role, CollectorStatus(StatusCode.OK))


class Lag(_Asking):
    """How far the copies of this node, or on the master those of the candidates, are behind."""

    NAME: ClassVar[str] = "lag"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        # stamp of the configuration's file, and the serial number in it
        self._read: tuple[Stamp | None, int | None] = (None, None)

    def collect(self) -> Measured:
        own, newest = self._own_serial(), _serial(self.ask(Question.CONFIG, "/serial_no"))
        queue = self._queue_serial()
        statuses, behind = [_config_status(own, newest)], None
        try:
            lags = self._queue_lags() if place_of(self.settings) is NodeKind.MASTER else None
            statuses.extend(map(_queue_status, lags or ()))
            behind = None if lags is None else [_lag_to_wire(lag) for lag in lags]
        except GantryError as error:
            statuses.append(CollectorStatus(StatusCode.UNKNOWN, error.message))
        data = {"config": {"own": own, "newest": newest}, "queue": {"own": queue, "behind": behind}}
        return Measured(data, tuple(_numbers(own, newest, queue)), worst(statuses))

    def _own_serial(self) -> int | None:
        """The serial number of this node's configuration; None: it has none."""
        path = self.settings.paths.config_data
        try:
            stamp = stamp_of(os.stat(path))
            if stamp != self._read[0]:
                serial = orjson.loads(path.read_bytes()).get("serial_no")
                self._read = (stamp, serial if isinstance(serial, int) else None)
        except FileNotFoundError:
            return None
        return self._read[1]

    def _queue_serial(self) -> int | None:
        """The last job id that this node knows; None: it has no queue, or mond's user may not look into it."""
        try:
            text = self.settings.paths.serial_file.read_text().strip()
        except (FileNotFoundError, PermissionError):
            return None
        return int(text) if text.isascii() and text.isdigit() else None

    def _queue_lags(self) -> Sequence[QueueLag] | None:
        """What candidates lack of the queue, by luxid; None: the queue is not copied. Raises: GantryError."""
        with BlockingClient(self.settings.paths.query_socket, connect_timeout_s=0) as luxid:
            (value,) = luxid.call(QueryConfigValues((QUEUE_LAGS,)), timeout_s=_ASK_S)
        return None if value is None else structure(value, tuple[QueueLag, ...], QUEUE_LAGS)


def _numbers(own: int | None, newest: int | None, queue: int | None) -> Iterator[Number]:
    for name, value in (("config_serial", own), ("queue_serial", queue)):
        if value is not None:
            yield Number(f"gantry_node_{name}", value, help="Serial number of this node's copy")
    if own is not None and newest is not None:
        text = "Changes that this node's configuration lacks"
        yield Number("gantry_node_config_behind", max(newest - own, 0), help=text)


def _lag_to_wire(lag: QueueLag) -> Mapping[str, object]:
    return {"node": lag.node, "files": lag.files, "seconds": round(lag.seconds, 1)}


def _serial(outcome: GatheredReplies) -> int | None:
    """The newest serial number that a candidate has; None: none replied with one."""
    serials = [reply.answer for reply in outcome.replies.values() if reply.status == 0]
    return max((serial for serial in serials if isinstance(serial, int)), default=None)


def _config_status(own: int | None, newest: int | None) -> CollectorStatus:
    if newest is None:
        return CollectorStatus(StatusCode.UNKNOWN, "no candidate tells the serial number of the configuration")
    if own is not None and own < newest:
        return CollectorStatus(
            StatusCode.REPAIRED, f"the configuration here has the serial number {own}, the newest {newest}"
        )
    return CollectorStatus(StatusCode.OK)


def _queue_status(lag: QueueLag) -> CollectorStatus:
    text = f"node '{lag.node}' lacks {lag.files} files of the queue for {lag.seconds:.1f} s"
    return CollectorStatus(StatusCode.REPAIRED, text) if lag.files else CollectorStatus(StatusCode.OK)
