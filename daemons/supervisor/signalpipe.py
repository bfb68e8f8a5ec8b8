"""The signals that the supervisor obeys, as a descriptor for select."""

import signal
import socket
from typing import Final

ENDING: Final = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP})
# sent when this node's place in the cluster has changed
LOOK_AGAIN: Final = signal.SIGUSR1
# signals taken at once
_MOST: Final = 4096


class SignalPipe:
    """SIGTERM, SIGINT, the hang-up of a terminal, and SIGUSR1; `reader` is readable after one of them."""

    def open(self) -> None:
        """Install the handlers. Signals that came while the previous program had them blocked are delivered now."""
        self.reader, self._writer = socket.socketpair()
        self.reader.setblocking(False)
        self._writer.setblocking(False)
        # the handlers do nothing: the wakeup descriptor records the signal
        self._handlers = {number: signal.signal(number, lambda *_: None) for number in (*ENDING, LOOK_AGAIN)}
        signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)

    def take(self) -> frozenset[int]:
        """The signals that have come since the last call."""
        try:
            return frozenset(self.reader.recv(_MOST))
        except BlockingIOError:
            return frozenset()

    def close(self) -> None:
        signal.set_wakeup_fd(-1)
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self.reader.close()
        self._writer.close()
