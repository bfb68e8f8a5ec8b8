"""A watchdog of the kernel: it restarts the machine when it is not fed in time.

Theory. It is fed only while the deadline lies beyond its time-out, so it bites at the deadline at the latest. It is
closed, by the magic letter, only when keeperd has proof that nothing lives that ran under the mastership. A process
that ends without that leaves it to bite.

Source: lease.md 6.
"""

import array
import fcntl
import os
import stat
from typing import Final

# of linux/watchdog.h
_SET_TIMEOUT: Final = 0xC0045706
_GET_TIMEOUT: Final = 0x80045707
_FOOD: Final = b"\0"
_MAGIC: Final = b"V"


class Unfit(Exception):
    """The watchdog cannot be used; in words."""


class Watchdog:
    """An open watchdog, fed once. Raises: Unfit.

    A file or a pipe that is no device stands in for one in tests: what is written there tells what was done.
    """

    def __init__(self, path: str, timeout_s: int) -> None:
        try:
            self._fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            raise Unfit(f"the watchdog '{path}' cannot be opened: {(error.strerror or str(error)).lower()}") from error
        self.path = path
        self.timeout_s = timeout_s
        if stat.S_ISCHR(os.fstat(self._fd).st_mode) and path != os.devnull:
            self._set_timeout(timeout_s)

    def _set_timeout(self, wanted_s: int) -> None:
        try:
            value = array.array("i", [wanted_s])
            fcntl.ioctl(self._fd, _SET_TIMEOUT, value, True)
            fcntl.ioctl(self._fd, _GET_TIMEOUT, value, True)
        except OSError as error:
            self.close()
            reason = (error.strerror or str(error)).lower()
            raise Unfit(f"the watchdog '{self.path}' does not take a time-out: {reason}") from error
        if value[0] > wanted_s:
            self.close()
            raise Unfit(
                f"the watchdog '{self.path}' has a time-out of {value[0]} s instead of {wanted_s} s; it would bite "
                "after another node has taken over"
            )
        self.timeout_s = value[0]

    def feed(self) -> None:
        """Raises: OSError."""
        os.write(self._fd, _FOOD)

    def close(self) -> None:
        """Let it watch no more; one that cannot be switched off (nowayout) bites."""
        try:
            os.write(self._fd, _MAGIC)
        except OSError:
            pass
        finally:
            os.close(self._fd)


def check_watchdog(path: str, timeout_s: int) -> str:
    """Return why this watchdog cannot be used; empty: it can. It is opened for a moment."""
    try:
        Watchdog(path, timeout_s).close()
    except Unfit as error:
        return str(error)
    return ""
