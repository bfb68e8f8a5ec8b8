"""Wrong passwords slow down those who try them. Pure: the time is an argument.

Theory. Attempts are counted for each user at an address, and for the address as a whole. The first few wrong ones cost
nothing: people mistype. After them every attempt has to wait for its turn, and the turns are the further apart the
more were wrong, up to a bound. So guessing is slow, and a right password still gets its turn. Whoever would have to
wait too long is sent away at once, so that waiting requests do not pile up. Failures are forgotten with time.

An attempt counts from its beginning as if it were wrong, until it turns out to be right: else those that are made at
once would all pass before the first is known to be wrong.

An address has more attempts than each of its users, since several may share it. One beyond the free attempts of its
user counts there only by the share that is forgotten between two turns of that user: so whoever guesses one password
slows down that user at that address, and nobody else; only who tries many names slows down the address.

Passwords that were right before are not attempts: they never come here. Addresses of IPv6 count by their network, of
which one user has a whole one.
"""

import ipaddress
from collections import OrderedDict
from typing import Final

import attrs

# wrong passwords of a user at an address, and of an address, that cost nothing
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
class _Standing:
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

    def begun(self, now: float, turn: float, weight: float) -> "_Standing":
        begun = attrs.evolve(self, under_way=self.under_way + weight)
        return attrs.evolve(begun, next_turn=max(self.next_turn, turn + begun._pause_at(now)))

    def ended(self, now: float, weight: float, *, is_wrong: bool) -> "_Standing":
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
        self._standings: OrderedDict[Key, _Standing] = OrderedDict()

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

    def _standing(self, key: Key) -> _Standing:
        return self._standings.get(key) or _Standing(FREE if key[1] is not None else FREE_OF_ADDRESS)

    def _keep(self, key: Key, standing: _Standing) -> None:
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
