"""What keeperd and its renewing process say to each other, a message each over a socket that keeps messages apart.

Theory. keeperd does not send commands but always its whole intent (`Duty`), with each change and as its heartbeat. So
a message may be lost, or the process be started again, and nothing else is to be remembered.

Source: lease.md 7 and 8.
"""

from collections.abc import Callable, Mapping
from typing import Final

import attrs
import orjson

from protocol.etcd.credentials import EtcdAccount

# bytes of a message
MAX_MESSAGE: Final = 64 * 1024


@attrs.frozen
class ResolvedEndpoint:
    """An endpoint of etcd, looked up."""

    # socket family, and the address of it
    family: int
    address: tuple[str | int | bytes, ...]
    # as in the URL
    host: str
    port: int
    is_tls: bool

    @property
    def label(self) -> str:
        return f"{self.host}:{self.port}"


@attrs.frozen
class Setup(EtcdAccount):
    """What the process needs to know at its start: the first message."""

    deadline_file: str
    places: tuple[ResolvedEndpoint, ...]


@attrs.frozen
class Duty:
    """What keeperd wants now; also its heartbeat."""

    # 0: no mastership
    epoch: int = 0
    # the lease to renew; 0: none
    lease: int = 0
    # when the daemons of the master must have ended, if nothing is renewed; by BOOTTIME; 0: at once
    until: float = 0.0
    # interval of keepalives, limit of one request, and time from its sending to the deadline
    keepalive_s: float = 2.0
    request_s: float = 1.0
    deadline_s: float = 9.0
    # silence of keeperd after which nothing is renewed
    patience_s: float = 5.0
    # when the last successful keepalive was sent, as far as keeperd knows
    sent_at: float = 0.0
    # device of the watchdog while one is to watch; empty: none
    watchdog: str = ""
    watchdog_s: int = 0
    # whether it is not fed, as a test
    is_starving: bool = False


@attrs.frozen
class RenewerReady:
    """It has begun."""


@attrs.frozen
class Renewed:
    """The lease was renewed by a keepalive that was sent at this time."""

    epoch: int
    sent_at: float


@attrs.frozen
class Gone:
    """etcd says that the lease is gone."""

    epoch: int
    reason: str


@attrs.frozen
class Late:
    """Nothing is renewed: the deadline has passed."""

    epoch: int


@attrs.frozen
class WatchdogState:
    """The watchdog was opened or closed, or could not be."""

    # empty: it is as it is wanted
    failure: str
    is_open: bool


@attrs.frozen
class LogMessage:
    """A line for the log."""

    event: str
    text: str


Order = Setup | Duty
Report = RenewerReady | Renewed | Gone | Late | WatchdogState | LogMessage
_KINDS: Final[Mapping[str, Callable[..., Order | Report]]] = {
    kind.__name__: kind for kind in (Setup, Duty, RenewerReady, Renewed, Gone, Late, WatchdogState, LogMessage)
}


def encode(message: Order | Report) -> bytes:
    return orjson.dumps([type(message).__name__, attrs.asdict(message)])


def decode(data: bytes) -> Order | Report:
    """Of a message of the same release; anything else is a defect."""
    name, fields = orjson.loads(data)
    if name == Setup.__name__:
        places = [ResolvedEndpoint(**{**place, "address": tuple(place["address"])}) for place in fields["places"]]
        fields["places"] = tuple(places)
    return _KINDS[name](**fields)
