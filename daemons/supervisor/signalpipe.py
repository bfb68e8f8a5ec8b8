"""The signals that end the supervisor, as a descriptor for select."""

import signal
import socket
from typing import Final

ENDING: Final = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP})


class SignalPipe:
    """SIGTERM, SIGINT and the hang-up of a terminal; `reader` is readable after one of them."""

    def open(self) -> None:
        """Install the handlers. Signals that came while the previous program had them blocked are delivered now."""
        self.reader, self._writer = socket.socketpair()
        self.reader.setblocking(False)
        self._writer.setblocking(False)
        # the handlers do nothing: the wakeup descriptor records the signal
        self._handlers = {number: signal.signal(number, lambda *_: None) for number in ENDING}
        signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)

    def has_come(self) -> bool:
        try:
            return bool(self.reader.recv(16, socket.MSG_PEEK))
        except BlockingIOError:
            return False

    def close(self) -> None:
        signal.set_wakeup_fd(-1)
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self.reader.close()
        self._writer.close()
