"""The checks of passwords: off the event loop, a few at a time, and only once for a right one.

Theory. A check costs a tenth of a second of one core. What was right is remembered, by a hash whose key only this
process has, together with what was stored then: so a request with a password that was right before costs nothing,
and a password that is changed must be checked again. All other attempts go through the throttle of their address and
through few threads; when too many wait for these, the rest is sent away. So wrong passwords, from however many
addresses, cost a bounded part of the machine, and hold up nobody whose password is remembered.

Source: issue 12, "Wrong password".
"""

import hashlib
import os
from collections import OrderedDict
from typing import Final

import trio

from common.system.inthread import in_thread
from common.system.log import get_log
from common.webaccess.passwords import is_right, read_password
from common.webaccess.userstext import User
from daemons.rapid.access.throttle import FREE, LONGEST_WAIT_S, Throttle
from daemons.rapid.refusals import Refused

# checks at once, and checks that wait for their turn
THREADS: Final = 2
MOST_WAITING: Final = 64
# right passwords that are remembered
MOST_REMEMBERED: Final = 2048
_log: Final = get_log(__name__)


class PasswordChecks:
    def __init__(self) -> None:
        self._throttle = Throttle()
        self._limiter = trio.CapacityLimiter(THREADS)
        self._key = os.urandom(32)
        # hash of name and password -> what was stored when they were right
        self._right: OrderedDict[bytes, str] = OrderedDict()

    async def is_right(self, name: str, user: User | None, given: str, address: str) -> bool:
        """Whether this is the password of this user.

        Args: user: None: there is no user of this name, which takes as long as a wrong password.
        Raises: Refused: 429: too many wrong passwords from this address; 503: too many checks are waiting.
        """
        if self.is_remembered(name, user, given):
            return True
        await self._wait_for_turn(address)
        if self._limiter.statistics().tasks_waiting >= MOST_WAITING:
            raise Refused(503, "too many passwords are being checked; try again", headers={"Retry-After": "1"})
        async with self._limiter:
            # another request may have brought the same while this one waited
            if self.is_remembered(name, user, given):
                return True
            # with a limiter of its own: this task has this one already
            stored = None if user is None else read_password(user.password)
            found = await in_thread(is_right, stored, name, given)
        if found and user is not None:
            self._remember(name, user, given)
        else:
            self._tell(name, address, self._throttle.failed(address, trio.current_time()))
        return found

    async def _wait_for_turn(self, address: str) -> None:
        wait_s = self._throttle.wait_for_turn(address, trio.current_time())
        if wait_s is None:
            raise Refused(
                429,
                "too many wrong passwords from this address; try again later",
                code="too_many_attempts",
                headers={"Retry-After": str(int(LONGEST_WAIT_S))},
            )
        if wait_s:
            await trio.sleep(wait_s)

    def is_remembered(self, name: str, user: User | None, given: str) -> bool:
        """Whether this password of this user was right before, so that nothing need be checked."""
        if user is None:
            return False
        key = self._hash(name, given)
        if self._right.get(key) != user.password:
            return False
        self._right.move_to_end(key)
        return True

    def _remember(self, name: str, user: User, given: str) -> None:
        self._right[self._hash(name, given)] = user.password
        if len(self._right) > MOST_REMEMBERED:
            self._right.popitem(last=False)

    def _hash(self, name: str, given: str) -> bytes:
        whole = f"{name}\0{given}".encode(errors="surrogatepass")
        return hashlib.blake2b(whole, key=self._key, digest_size=32).digest()

    def _tell(self, name: str, address: str, failures: int) -> None:
        # the first ones; an attack must not fill the disk with lines
        if failures <= FREE:
            _log.warning("access.wrong_password", user=f"{name:.64}", address=address, failures=failures)
        elif failures == FREE + 1:
            _log.warning("access.slowed_down", address=address, failures=failures)
