"""The connection of a job process to one node daemon, for call after call.

A signal gets through to the job process at any instant, so it waits with its signals, and not with a client that
blocks.

Source: noded.md section 2; DESIGN section 13.
"""

import time
from collections.abc import Callable
from typing import TypeVar

from common.errors import Unavailable
from common.nodes.epochs import own_epoch
from common.settings import Settings
from common.system.log import get_log
from common.system.retrypauses import retry_pauses
from common.system.signals import ProcessSignals
from protocol.noded.call import NodeCall, request_body
from protocol.noded.clients.certificates import CallerContext, CertificateFiles
from protocol.noded.clients.channel import HttpRequest
from protocol.noded.clients.connection import CONNECT_S, NodeConnection
from protocol.noded.clients.judging import after_reply, before_sending, no_reply, not_connected
from protocol.noded.clients.nodes import NodeAddress
from protocol.noded.clients.outcomes import Breakdown, Failed, FailureKind, Outcome

R = TypeVar("R")
_log = get_log(__name__)


def _never() -> bool:
    return False


class NodeLink:
    """A connection that is kept from one call to the next, and made anew when it is lost.

    Raises: NoLongerMaster: another node has become the master. DamagedFile: what the epoch should be is none.
    """

    def __init__(self, settings: Settings, node: NodeAddress, signals: ProcessSignals) -> None:
        self.node = node
        self._signals = signals
        self._epoch = _epoch(settings, signals)
        self._context = CallerContext(CertificateFiles.of(settings.paths))
        self._connection: NodeConnection | None = None

    def ask(self, call: NodeCall[R], limit_s: float, stop: Callable[[], bool] = _never) -> Outcome[R] | None:
        """Send a call and wait for its reply.

        Args:
            stop: called after each signal.
        Returns: None: `stop` has become true, and the call was given up; the node may have carried it out.
        """
        body = request_body(call)
        if (unsent := before_sending(self.node, call, body)) is not None:
            return unsent
        request = HttpRequest(call.METHOD, body, self._epoch)
        try:
            reply = self._talk(call, request, time.monotonic() + limit_s, limit_s, stop)
        except Breakdown as breakdown:
            self.close()
            return breakdown.failed
        except Unavailable as error:
            return Failed(FailureKind.UNSENT, error.message)
        except BaseException:
            self.close()
            raise
        if reply is None or isinstance(reply, Failed):
            self.close()
        return reply

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _talk(
        self, call: NodeCall[R], request: HttpRequest, deadline: float, limit_s: float, stop: Callable[[], bool]
    ) -> Outcome[R] | None:
        """Raises: Breakdown; Unavailable: there are no certificates."""
        connection = self._connected()
        connection.ask(request)
        connected_by = min(time.monotonic() + CONNECT_S, deadline)
        while True:
            connection.advance()
            if connection.reply is not None:
                return after_reply(self.node, call, self._epoch, connection.reply)
            if stop():
                return None
            left_s = (deadline if connection.is_up else connected_by) - time.monotonic()
            if left_s <= 0:
                is_up = connection.is_up
                return (
                    no_reply(self.node, call, limit_s) if is_up else not_connected(self.node, min(limit_s, CONNECT_S))
                )
            self._wait(connection, left_s)

    def _connected(self) -> NodeConnection:
        context = self._context.current()
        kept, self._connection = self._connection, None
        if kept is not None and kept.context is context and kept.may_be_kept:
            self._connection = kept
            return kept
        if kept is not None:
            kept.close()
        self._connection = NodeConnection(self.node, context)
        return self._connection

    def _wait(self, connection: NodeConnection, left_s: float) -> None:
        fd = connection.sock.fileno()
        reading = (fd,) if connection.wants_read else ()
        self._signals.wait(left_s, *reading, writing=fd if connection.wants_write else None)


def _epoch(settings: Settings, signals: ProcessSignals) -> int:
    """The epoch of this master, as soon as it can be read."""
    for pause_s in retry_pauses():
        try:
            return own_epoch(settings.paths.epoch_file, settings.cluster.own_name)
        except OSError as error:
            _log.warning("epoch.unreadable", error=error, retry_s=pause_s)
        signals.wait(pause_s)
    raise AssertionError("pauses never end")
