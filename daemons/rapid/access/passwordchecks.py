"""The checks of passwords: off the event loop, a few at a time, and only once for a right one.

Theory. A check costs a tenth of a second of one core. What was right is remembered, by a hash whose key only this
process has, together with what was stored then: so a request with a password that was right before costs nothing,
and a password that is changed must be checked again. All other attempts go through the throttle and through few
threads, which serve addresses in turn, and the users of an address in turn; when too many wait for these, the rest is
sent away, from where most wait. So wrong passwords, from however many addresses, cost a bounded part of the machine,
and hold up nobody whose password is remembered, and others for about as long as one check.

Requests of an address that bring the same password at once wait for one check; if it was wrong, each other one is an
attempt of its own, so that no more are answered than the throttle lets pass.
"""

import hashlib
import ipaddress
import os
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import attrs
import trio

from common.system.inthread import in_thread
from common.system.log import get_log
from common.webaccess.passwords import is_right, read_password
from common.webaccess.users import User
from daemons.rapid.refusals import RequestRefused

# Wrong passwords slow down those who try them. Pure: the time is an argument.
#
# Theory. Attempts are counted for each user at an address, and for the address as a whole. The first few wrong ones
# cost nothing: people mistype. After them every attempt has to wait for its turn, and the turns are the further apart
# the more were wrong, up to a bound. So guessing is slow, and a right password still gets its turn. Whoever would have
# to wait too long is sent away at once, so that waiting requests do not pile up. Failures are forgotten with time.
#
# An attempt counts from its beginning as if it were wrong, until it turns out to be right: else those that are made at
# once would all pass before the first is known to be wrong.
#
# An address has more attempts than each of its users, since several may share it. One beyond the free attempts of its
# user counts there only by the share that is forgotten between two turns of that user: so whoever guesses one password
# slows down that user at that address, and nobody else; only who tries many names slows down the address.
#
# Passwords that were right before are not attempts: they never come here. Addresses of IPv6 count by their network, of
# which one user has a whole one.


# failed logins of a user at an address, and of an address, before delays begin
FREE: Final = 5
FREE_OF_ADDRESS: Final = 30
FIRST_PAUSE_S: Final = 0.25
LONGEST_PAUSE_S: Final = 4.0
# longest time that an attempt waits for its turn
LONGEST_WAIT_S: Final = 8.0
# time in which one failure is forgotten
FORGET_S: Final = 30.0
# users and addresses that are remembered
MOST_KEYS: Final = 8192
# failures that count, beyond the free ones
_MOST_BEYOND: Final = 15
_V6_PREFIX: Final = 64
_LONGEST_NAME: Final = 64
# what an attempt beyond the free ones of its user counts for the address
_SHARE: Final = LONGEST_PAUSE_S / FORGET_S
# less is nothing: sums of shares are not exact
_NOTHING: Final = 1e-6

# an address, and a user's name; the address as a whole has no name
Key = tuple[str, str | None]


@attrs.frozen
class _Attempts:
    """The attempts of one key: failures as they were at a time, those under way, and when the next turn is."""

    free: int
    failures: float = 0.0
    at: float = 0.0
    under_way: float = 0.0
    next_turn: float = 0.0

    def count_at(self, now: float) -> float:
        return max(0.0, self.failures - (now - self.at) / FORGET_S) + self.under_way

    def turn_at(self, now: float) -> float:
        return now if int(self.count_at(now) + _NOTHING) < self.free else max(now, self.next_turn)

    def begun(self, now: float, turn: float, weight: float) -> "_Attempts":
        begun = attrs.evolve(self, under_way=self.under_way + weight)
        return attrs.evolve(begun, next_turn=max(self.next_turn, turn + begun._pause_at(now)))

    def ended(self, now: float, weight: float, *, is_wrong: bool) -> "_Attempts":
        left = self.under_way - weight
        ended = attrs.evolve(self, under_way=left if left > _NOTHING else 0.0)
        if not is_wrong:
            return ended
        failures = max(0.0, self.failures - (now - self.at) / FORGET_S) + weight
        ended = attrs.evolve(ended, failures=min(self.free + _MOST_BEYOND, failures), at=now)
        # from now on attempts are apart from this one, too
        return attrs.evolve(ended, next_turn=max(self.next_turn, now + ended._pause_at(now)))

    def _pause_at(self, now: float) -> float:
        beyond = min(int(self.count_at(now) + _NOTHING) - self.free, _MOST_BEYOND)
        return 0.0 if beyond < 0 else min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2**beyond)


@attrs.frozen
class Attempt:
    """An attempt under way; `Throttle.end` must follow."""

    wait_s: float
    # what it counts for its user, and for the address
    _weights: tuple[tuple[Key, float], ...]


class Throttle:
    """The attempts of all; forgets who was quiet for longest when there are too many."""

    def __init__(self) -> None:
        self._standings: OrderedDict[Key, _Attempts] = OrderedDict()

    def __len__(self) -> int:
        return len(self._standings)

    def begin(self, address: str, name: str, now: float) -> Attempt | None:
        """Take the turn of an attempt, after `wait_s` seconds; None: that were too long, so send it away."""
        place = network_of(address)
        keys: tuple[Key, Key] = ((place, name[:_LONGEST_NAME]), (place, None))
        user, whole = (self._standing(key) for key in keys)
        turn = max(user.turn_at(now), whole.turn_at(now))
        if turn - now > LONGEST_WAIT_S:
            return None
        weights = (1.0, 1.0 if user.count_at(now) < user.free else _SHARE)
        for key, standing, weight in zip(keys, (user, whole), weights, strict=True):
            self._keep(key, standing.begun(now, turn, weight))
        return Attempt(turn - now, tuple(zip(keys, weights, strict=True)))

    def end(self, attempt: Attempt, now: float, *, is_wrong: bool) -> tuple[int, int]:
        """Note how an attempt ended; return how many wrong ones count by now, of its user there, and of the address.

        Args: is_wrong: False: the password was right, or was not checked.
        """
        counts = []
        for key, weight in attempt._weights:
            standing = self._standing(key).ended(now, weight, is_wrong=is_wrong)
            self._keep(key, standing)
            counts.append(int(standing.failures + _NOTHING))
        return counts[0], counts[1]

    def _standing(self, key: Key) -> _Attempts:
        return self._standings.get(key) or _Attempts(FREE if key[1] is not None else FREE_OF_ADDRESS)

    def _keep(self, key: Key, standing: _Attempts) -> None:
        if not standing.failures and not standing.under_way:
            self._standings.pop(key, None)
            return
        self._standings[key] = standing
        self._standings.move_to_end(key)
        if len(self._standings) > MOST_KEYS:
            self._standings.popitem(last=False)


def network_of(address: str) -> str:
    """What attempts from an address are counted for: the address itself, of IPv6 its network."""
    try:
        number = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address[:64]
    if isinstance(number, ipaddress.IPv4Address):
        return str(number)
    if number.ipv4_mapped is not None:
        return str(number.ipv4_mapped)
    return str(ipaddress.ip_network((number, _V6_PREFIX), strict=False))


# checks at once, and checks that wait for their turn
THREADS: Final = 2
MOST_WAITING: Final = 64
# right passwords that are remembered
MOST_REMEMBERED: Final = 2048
_log: Final = get_log(__name__)


@attrs.define(eq=False)
class _Waiter:
    address: str
    name: str
    called: trio.Event = attrs.Factory(trio.Event)
    is_sent_away: bool = False


class FairTurns:
    """A few places, for which addresses take turns, and the users of each address.

    Args: places: that there are. most_waiting: beyond them the last one of an address where most wait is sent away.
    """

    def __init__(self, places: int, most_waiting: int) -> None:
        self._free = places
        self._most_waiting = most_waiting
        self._waiting = 0
        # whose turn is next comes first
        self._addresses: OrderedDict[str, OrderedDict[str, deque[_Waiter]]] = OrderedDict()

    @asynccontextmanager
    async def turn(self, address: str, name: str) -> AsyncIterator[None]:
        """Hold a place while the context lasts.

        Raises: RequestRefused: 503: too many wait. Cancellation: at any time.
        """
        await self._take(_Waiter(network_of(address), name))
        try:
            yield
        finally:
            self._give_back()

    async def _take(self, waiter: _Waiter) -> None:
        if self._free:
            self._free -= 1
            return
        self._add(waiter)
        try:
            await waiter.called.wait()
        except trio.Cancelled:
            if waiter.is_sent_away:
                pass
            elif waiter.called.is_set():
                # the place came at the same moment
                self._give_back()
            else:
                self._remove(waiter)
            raise
        if waiter.is_sent_away:
            raise _crowded()

    def _add(self, waiter: _Waiter) -> None:
        """Raises: RequestRefused: nobody who waits has to make room for this one."""
        if self._waiting >= self._most_waiting:
            most = max(self._addresses, key=self._count)
            if self._count(most) <= self._count(waiter.address) + 1:
                raise _crowded()
            names = self._addresses[most]
            last = max(names.values(), key=len)[-1]
            self._remove(last)
            last.is_sent_away = True
            last.called.set()
        self._waiting += 1
        self._addresses.setdefault(waiter.address, OrderedDict()).setdefault(waiter.name, deque()).append(waiter)

    def _count(self, address: str) -> int:
        return sum(map(len, self._addresses.get(address, {}).values()))

    def _remove(self, waiter: _Waiter) -> None:
        names = self._addresses[waiter.address]
        names[waiter.name].remove(waiter)
        self._waiting -= 1
        if not names[waiter.name]:
            del names[waiter.name]
        if not names:
            del self._addresses[waiter.address]

    def _give_back(self) -> None:
        """Give the place to the next one."""
        if not self._addresses:
            self._free += 1
            return
        address, names = next(iter(self._addresses.items()))
        name, waiters = next(iter(names.items()))
        waiter = waiters[0]
        # first to the ends of both lines, where they stay if more of theirs wait
        self._addresses.move_to_end(address)
        names.move_to_end(name)
        self._remove(waiter)
        waiter.called.set()


class PasswordChecks:
    def __init__(self) -> None:
        self._throttle = Throttle()
        self._turns = FairTurns(THREADS, MOST_WAITING)
        self._key = os.urandom(32)
        # hash of name and password -> what was stored when they were right
        self._right: OrderedDict[bytes, str] = OrderedDict()
        # hash of name and password, and where they come from -> the end of a check that is under way
        self._under_way: dict[tuple[bytes, str], trio.Event] = {}

    async def is_right(self, name: str, user: User | None, given: str, address: str) -> bool:
        """Whether this is the password of this user.

        Args: user: None: there is no user of this name, which takes as long as a wrong password.
        Raises: RequestRefused: 429: too many wrong passwords; 503: too many checks are waiting.
        """
        key = self._hash(name, given), address
        if (same := self._under_way.get(key)) is not None:
            await same.wait()
        if self.is_remembered(name, user, given):
            return True
        attempt = self._throttle.begin(address, name, trio.current_time())
        if attempt is None:
            raise _slowed_down()
        is_wrong = False
        try:
            if attempt.wait_s:
                await trio.sleep(attempt.wait_s)
            found = await self._checked(key, name, user, given)
            is_wrong = not found
        finally:
            counts = self._throttle.end(attempt, trio.current_time(), is_wrong=is_wrong)
        if is_wrong:
            self._tell(name, address, *counts)
        return found

    async def _checked(self, key: tuple[bytes, str], name: str, user: User | None, given: str) -> bool:
        """Check a password whose turn has come. Raises: RequestRefused: 503."""
        over = self._under_way.setdefault(key, trio.Event())
        try:
            async with self._turns.turn(key[1], name):
                # another request may have brought the same while this one waited
                if self.is_remembered(name, user, given):
                    return True
                stored = None if user is None else read_password(user.password)
                found = await in_thread(is_right, stored, name, given)
            if found and user is not None:
                self._remember(key[0], user)
            return found
        finally:
            over.set()
            if self._under_way.get(key) is over:
                del self._under_way[key]

    def is_remembered(self, name: str, user: User | None, given: str) -> bool:
        """Whether this password of this user was right before, so that nothing need be checked."""
        if user is None:
            return False
        key = self._hash(name, given)
        if self._right.get(key) != user.password:
            return False
        self._right.move_to_end(key)
        return True

    def _remember(self, key: bytes, user: User) -> None:
        self._right[key] = user.password
        if len(self._right) > MOST_REMEMBERED:
            self._right.popitem(last=False)

    def _hash(self, name: str, given: str) -> bytes:
        whole = f"{name}\0{given}".encode(errors="surrogatepass")
        return hashlib.blake2b(whole, key=self._key, digest_size=32).digest()

    def _tell(self, name: str, address: str, failures: int, of_address: int) -> None:
        # the first ones; an attack must not fill the disk with lines
        if of_address > FREE_OF_ADDRESS + 1:
            return
        if of_address == FREE_OF_ADDRESS + 1:
            _log.warning("access.slowed_down", address=address, failures=of_address)
        elif failures <= FREE:
            _log.warning("access.wrong_password", user=f"{name:.64}", address=address, failures=failures)
        elif failures == FREE + 1:
            _log.warning("access.slowed_down", user=f"{name:.64}", address=address, failures=failures)


def _slowed_down() -> RequestRefused:
    return RequestRefused(
        429,
        "too many wrong passwords from this address; try again later",
        code="too_many_attempts",
        headers={"Retry-After": str(int(LONGEST_WAIT_S))},
    )


def _crowded() -> RequestRefused:
    return RequestRefused(503, "too many passwords are being checked; try again", headers={"Retry-After": "1"})
