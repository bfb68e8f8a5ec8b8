"""confd: answers questions about the configuration. The only module that knows all its parts.

Source: DESIGN section 12; confd.md 1.
"""

import os
import socket
import time
from collections import Counter
from collections.abc import Callable
from typing import Final

import trio

from common.daemons import Feature
from common.errors import Unavailable
from common.settings import Settings
from common.system.daemon import listen_options, run_daemon, tell_if_enabled
from common.system.log import get_log
from daemons.confd.core.answers import ConfigSnapshot, NoReplyReason, judge
from daemons.confd.knowledge import CurrentSnapshot
from protocol.confd.questions import MAX_REQUEST_BYTES

# Datagrams in, datagrams out.
#
# Theory. One task takes one datagram after the other: an answer costs less than starting a task would. Replies that the
# kernel does not take at once are dropped, like any datagram. What gets no reply is counted, and the log says so at
# most once a minute: a flood fills neither memory nor disk.
#
# Source: confd.md 2.


# datagrams that are taken before other tasks have their turn
_TURN: Final = 32
# pause after an error that may come again at once
_PAUSE_S: Final = 0.05
_TELL_EVERY_S: Final = 60.0
# bytes that the kernel keeps for us while a new configuration is read
_WAITING_BYTES: Final = 2**20
# reasons, besides those of `NoReplyReason`
_FAILED: Final = "its answer failed"
_NOT_SENT: Final = "its answer could not be sent"
_WRITTEN: Final = {NoReplyReason.HUGE_ANSWER.value, NoReplyReason.NO_KEY.value, _FAILED, _NOT_SENT}
_log: Final = get_log(__name__)


def open_socket(address: str, port: int) -> socket.socket:
    """Make the socket; the caller closes it. Args: address: empty: all of IPv4.

    Raises: Unavailable: another process has the port, or the address is not of this machine.
    """
    sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _WAITING_BYTES)
        sock.bind((address, port))
    except OSError as error:
        sock.close()
        reason = os.strerror(error.errno).lower() if error.errno else str(error)
        place = "'address' and 'port' in [confd]"
        raise Unavailable(f"cannot listen at '{address or '*'}' port {port} (UDP): {reason}; see {place}") from error
    sock.setblocking(False)
    return sock


class Replies:
    """The replies of one socket. Args: known: returns what is known now."""

    def __init__(self, sock: socket.socket, known: Callable[[], ConfigSnapshot]) -> None:
        self._sock = sock
        self._known = known
        # why there was no reply -> how often, since the log said so
        self._silent: Counter[str] = Counter()
        self._tell_at = 0.0

    async def run(self) -> None:
        """Reply until cancelled."""
        try:
            while True:
                await trio.lowlevel.wait_readable(self._sock)
                try:
                    self._take_turn()
                except OSError as error:
                    # such as no memory; an ICMP for an earlier reply is no reason to stop either
                    _log.debug("datagram.not_read", reason=error)
                    await trio.sleep(_PAUSE_S)
                if self._silent and trio.current_time() >= self._tell_at:
                    self._tell()
        finally:
            if self._silent:
                self._tell()

    def _take_turn(self) -> None:
        for _ in range(_TURN):
            try:
                datagram, peer = self._sock.recvfrom(MAX_REQUEST_BYTES + 1)
            except BlockingIOError:
                return
            if (why := self._reply(datagram, peer)) is not None:
                self._silent[why] += 1

    def _reply(self, datagram: bytes, peer: object) -> str | None:
        """Return why there was none."""
        try:
            reply = judge(self._known(), datagram, time.time())
        except Exception:
            if not self._silent[_FAILED]:
                _log.exception("answer.failed", peer=peer)
            return _FAILED
        if isinstance(reply, NoReplyReason):
            return reply.value
        try:
            self._sock.sendto(reply, peer)  # type: ignore[call-overload]  # an address of either family
        except OSError:
            return _NOT_SENT
        return None

    def _tell(self) -> None:
        self._tell_at = trio.current_time() + _TELL_EVERY_S
        counts = {f"n{number}": f"{count} x {why}" for number, (why, count) in enumerate(self._silent.items(), 1)}
        tell = _log.warning if _WRITTEN & self._silent.keys() else _log.info
        tell("requests.unanswered", **counts)
        self._silent.clear()


NAME: Final = "confd"


def main() -> None:
    """The program gantry-confd; with --check-enabled it only says, by its exit code, whether the settings enable it."""
    tell_if_enabled(Feature.QUESTIONS)
    run_daemon(NAME, "Answers questions about the configuration.", serve, own=listen_options(NAME))


async def serve(settings: Settings, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
    """Run confd; started when it listens, and has looked for the configuration.

    Raises: Unavailable: the port is taken.
    """
    knowledge = CurrentSnapshot(settings.paths)
    await knowledge.load()
    with open_socket(settings.confd_address, settings.confd.port) as sock:
        replies = Replies(sock, lambda: knowledge.current)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(knowledge.follow)
            nursery.start_soon(replies.run)
            _log.info("questions.taken", address=settings.confd_address or "*", port=settings.confd.port)
            task_status.started()


if __name__ == "__main__":
    main()
