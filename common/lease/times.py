"""All times of a mastership, made from the length of its lease.

Theory. A mastership ends by its holder's own clock before etcd lets somebody else have it. All is counted from the
moment at which the last successful keepalive was sent, by `common.lease.deadline.boottime`. With a lease of 10 s:

     0, 2, 4 s   keepalive, each with a limit of 1 s, then the next endpoint
     3.3 s       shaky: commits wait
     6 s         the daemons of the master get SIGTERM, the health check refuses
     8 s         SIGKILL
     9 s         the deadline: nothing acts any more; a watchdog of 5 s, last fed at 4 s, bites here
    10 s         etcd removes the key of the master

Other leases scale. The margin between the deadline and the end of the lease is what the clocks of this machine and of
etcd may differ by, and a late scheduler; it is not less than 1 s, but for leases of tests.

Source: lease.md 6 and 8.
"""

from typing import Final

import attrs

from common.errors import InvalidRequest
from common.featuresettings import LEAST_TTL_S, EtcdSettings, KeeperdSettings
from common.lease.records import LastMaster

# keepalives that fit into the first half of a lease even if each runs into its limit
TRIES: Final = 3
_KEEPALIVE: Final = 1 / 5
_REQUEST: Final = 1 / 10
_SHAKY: Final = 1 / 3
_STOP: Final = 0.6
# part of the time from SIGTERM to the deadline that the daemons get to end by themselves
_GRACE: Final = 2 / 3
_MARGIN: Final = 0.1
_LEAST_MARGIN_S: Final = 1.0
# of the lease, where `_LEAST_MARGIN_S` is more: leases of tests
_MOST_MARGIN: Final = 0.2
# in etcd a lease of any cluster may be so long
_LONGEST_TTL_S: Final = 600.0


@attrs.frozen
class LeaseTimes:
    """Seconds, counted from the sending of the last successful keepalive, unless told otherwise."""

    # of the lease, as etcd granted it
    ttl_s: float
    # interval of keepalives
    keepalive_s: float
    # limit of one request to one member of etcd
    request_s: float
    # commits wait from here on
    shaky_s: float
    # SIGTERM
    stop_s: float
    # SIGKILL
    kill_s: float
    # nothing acts as the master any more
    deadline_s: float

    @classmethod
    def of(cls, ttl_s: float, *, request_s: float = 0.0) -> "LeaseTimes":
        """Return the times of a lease. Args: request_s: limit of a request, from the settings; 0: what fits."""
        margin = min(max(_LEAST_MARGIN_S, _MARGIN * ttl_s), _MOST_MARGIN * ttl_s)
        deadline, stop = ttl_s - margin, _STOP * ttl_s
        return cls(
            ttl_s=ttl_s,
            keepalive_s=_KEEPALIVE * ttl_s,
            request_s=request_s or _REQUEST * ttl_s,
            shaky_s=_SHAKY * ttl_s,
            stop_s=stop,
            kill_s=stop + _GRACE * (deadline - stop),
            deadline_s=deadline,
        )

    @property
    def grace_s(self) -> float:
        """Time from SIGTERM to SIGKILL."""
        return self.kill_s - self.stop_s

    @property
    def margin_s(self) -> float:
        """Time from the deadline to the end of the lease."""
        return self.ttl_s - self.deadline_s


def watchdog_s(settings: KeeperdSettings) -> int:
    """Return the time-out of the watchdog in whole seconds; 0: there is none."""
    if not settings.watchdog:
        return 0
    return settings.watchdog_s or max(1, int(settings.ttl_s / 2))


def ghost_s(last: LastMaster) -> float | None:
    """Return how long after the end of an old mastership its machine may still run jobs, in seconds.

    Counted from the moment at which the next master has won. By the old master's own values: a watchdog resets its
    machine within its time-out after it was last fed, and a device may round up. None: no time proves it, since it has
    no watchdog.
    """
    return last.ttl_s + 2 * last.watchdog_s if last.watchdog_s else None


def check_times(settings: KeeperdSettings, etcd: EtcdSettings) -> None:
    """Raises: InvalidRequest: the times of `[keeperd]` and `[etcd]` do not fit each other; with the sum."""
    ttl = settings.ttl_s
    _check_lease(settings)
    times = LeaseTimes.of(ttl, request_s=etcd.request_timeout_s)
    tries = TRIES * times.request_s
    if tries >= ttl / 2:
        raise InvalidRequest(
            f"request_timeout_s {_s(times.request_s)} in '[etcd]' is too long for ttl_s {_s(ttl)} in '[keeperd]': "
            f"{TRIES} requests of {_s(times.request_s)} are {_s(tries)} and must be less than half of the lease, "
            f"{_s(ttl / 2)}; set at most {_s(int(100 * ttl / 2 / TRIES - 1) / 100)}, or 0"
        )
    if settings.watchdog_s and settings.watchdog and settings.watchdog_s > ttl / 2:
        raise InvalidRequest(
            f"watchdog_s {settings.watchdog_s} in '[keeperd]' is too long for ttl_s {_s(ttl)}: it must be at most half "
            f"of the lease, {_s(ttl / 2)}, or it would bite after another node has taken over"
        )
    if settings.stale_s <= ttl:
        raise InvalidRequest(
            f"stale_s {_s(settings.stale_s)} in '[keeperd]' must be longer than ttl_s {_s(ttl)}: a node that is away "
            "for one lease would not be allowed to take over"
        )


def _check_lease(settings: KeeperdSettings) -> None:
    ttl = settings.ttl_s
    # in this order: an infinite one is no whole number
    if ttl > _LONGEST_TTL_S or ttl != int(ttl):
        raise InvalidRequest(
            f"ttl_s {_s(ttl)} in '[keeperd]' must be whole seconds, at most {_s(_LONGEST_TTL_S)}: etcd counts no parts"
        )
    if ttl < LEAST_TTL_S and not settings.test_timings:
        times = LeaseTimes.of(ttl)
        raise InvalidRequest(
            f"ttl_s {_s(ttl)} in '[keeperd]' must be at least {_s(LEAST_TTL_S)}: stop {_s(times.grace_s)} + kill "
            f"{_s(times.deadline_s - times.kill_s)} + margin {_s(_LEAST_MARGIN_S)} do not fit into {_s(ttl)} beside "
            "two rounds of keepalives"
        )


def _s(seconds: float) -> str:
    return f"{round(seconds, 2):g} s"
