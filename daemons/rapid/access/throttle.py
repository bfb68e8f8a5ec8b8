"""Wrong passwords slow down the address from which they come. Pure: the time is an argument.

Theory. The first few wrong passwords of an address cost nothing: people mistype. After them every attempt of the
address has to wait for its turn, and the turns are the further apart the more were wrong, up to a bound. So guessing
is slow, and a right password still gets its turn. Whoever would have to wait too long is sent away at once, so that
waiting requests do not pile up. Failures are forgotten with time. Passwords that were right before are not
attempts: they never come here. Addresses of IPv6 count by their network, of which one user has a whole one.

Source: issue 12, "Wrong password".
"""

import ipaddress
from collections import OrderedDict
from typing import Final

import attrs

# wrong passwords of an address that cost nothing
FREE: Final = 5
FIRST_PAUSE_S: Final = 0.25
LONGEST_PAUSE_S: Final = 4.0
# longest time that an attempt waits for its turn
LONGEST_WAIT_S: Final = 8.0
# time in which one failure is forgotten
FORGET_S: Final = 30.0
MOST_ADDRESSES: Final = 4096
# failures that count
_MOST_FAILURES: Final = 20
_V6_PREFIX: Final = 64


@attrs.frozen
class _Standing:
    """The failures of an address, as they were at a time, and when its next turn is."""

    failures: float = 0.0
    at: float = 0.0
    next_turn: float = 0.0

    def failures_at(self, now: float) -> float:
        return max(0.0, self.failures - (now - self.at) / FORGET_S)

    def pause_at(self, now: float) -> float:
        beyond = int(self.failures_at(now)) - FREE
        return 0.0 if beyond < 0 else min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2**beyond)


class Throttle:
    """The attempts of all addresses; forgets the address that was quiet for longest when there are too many."""

    def __init__(self) -> None:
        self._standings: OrderedDict[str, _Standing] = OrderedDict()

    def __len__(self) -> int:
        return len(self._standings)

    def wait_for_turn(self, address: str, now: float) -> float | None:
        """Seconds until an attempt may be checked, whose turn is taken by this; None: too long, so send it away."""
        key = _key_of(address)
        standing = self._standings.get(key)
        if standing is None or not (pause_s := standing.pause_at(now)):
            return 0.0
        turn = max(now, standing.next_turn)
        if turn - now > LONGEST_WAIT_S:
            return None
        self._standings[key] = attrs.evolve(standing, next_turn=turn + pause_s)
        return turn - now

    def failed(self, address: str, now: float) -> int:
        """Note a wrong password; return how many count by now."""
        key = _key_of(address)
        standing = self._standings.pop(key, _Standing())
        failures = min(_MOST_FAILURES, standing.failures_at(now) + 1)
        changed = attrs.evolve(standing, failures=failures, at=now)
        # from now on attempts are apart from this one, too
        self._standings[key] = attrs.evolve(changed, next_turn=max(standing.next_turn, now + changed.pause_at(now)))
        if len(self._standings) > MOST_ADDRESSES:
            self._standings.popitem(last=False)
        return int(failures)


def _key_of(address: str) -> str:
    try:
        number = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address[:64]
    if isinstance(number, ipaddress.IPv4Address):
        return str(number)
    if number.ipv4_mapped is not None:
        return str(number.ipv4_mapped)
    return str(ipaddress.ip_network((number, _V6_PREFIX), strict=False))
