"""The work of the renewing process: keepalives, the deadline, the watchdog; one thing after the other.

Theory. Nothing here takes longer than the limit of one request, so keeperd's intent, the deadline and the watchdog are
looked at that often. Each keepalive counts from before it was sent. One that comes back after the deadline changes
nothing any more, whatever etcd says. keeperd's silence ends the renewals: a main process that hangs must not stay the
master.

Source: lease.md 7 and 8.
"""

import contextlib
import math
import os
import select
import socket
from typing import Final

from common.lease.deadline import NEVER, DeadlineWriter, boottime
from daemons.keeperd.renewing.dog import Unfit, Watchdog
from daemons.keeperd.renewing.keepalives import Endpoint, Silent, ask_for_lease
from daemons.keeperd.renewing.orders import (
    MAX_MESSAGE,
    Duty,
    Gone,
    Late,
    Ready,
    Renewed,
    Report,
    Setup,
    Told,
    Watching,
    decode,
    encode,
)
from protocol.etcd.credentials import Credentials
from protocol.etcd.tlscontexts import TlsContexts

# interval of the watchdog's food
_FEED_S: Final = 0.5
# pause after all endpoints were silent
_PAUSE_S: Final = 0.1


class Over(Exception):
    """keeperd has gone."""


class Duties:
    """Raises: InvalidRequest: a file with a password or a certificate cannot be read."""

    def __init__(self, line: socket.socket, setup: Setup) -> None:
        self._line = line
        # None: etcd asks for no user
        self._who = Credentials(setup) if setup.user else None
        tls = TlsContexts(setup) if any(place.is_tls for place in setup.places) else None
        self._endpoints = [Endpoint(place, tls) for place in setup.places]
        self._writer = DeadlineWriter.attach(setup.deadline_file)
        self._duty = Duty()
        self._heard_at = boottime()
        # the deadline as written; NEVER: there is no mastership
        self._until: float = NEVER
        # by BOOTTIME; inf: not due
        self._next_at = math.inf
        self._feed_at = math.inf
        # whether keeperd is silent
        self._is_deserted = False
        self._dog: Watchdog | None = None
        # why there is none although one is wanted, as told
        self._unfit = ""

    def run(self) -> None:
        """Until keeperd goes; raises Over."""
        self._report(Ready())
        while True:
            self._hear(self._wait_s())
            self._feed()
            if boottime() >= self._next_at:
                self._renew()

    def _wait_s(self) -> float | None:
        due = min(self._next_at, self._feed_at)
        return None if due == math.inf else max(0.0, due - boottime())

    def _hear(self, limit_s: float | None) -> None:
        """Take in what keeperd wants; wait for the first message at most so long."""
        timeout_ms = None if limit_s is None else math.ceil(limit_s * 1000)
        poller = select.poll()
        poller.register(self._line, select.POLLIN)
        while poller.poll(timeout_ms):
            data = self._line.recv(MAX_MESSAGE)
            if not data:
                raise Over
            order = decode(data)
            if isinstance(order, Duty):
                self._take(order)
            timeout_ms = 0

    def _take(self, duty: Duty) -> None:
        before, self._duty = self._duty, duty
        self._heard_at = boottime()
        self._set_until(before, duty)
        if not duty.lease:
            self._next_at = math.inf
        elif duty.lease != before.lease or duty.epoch != before.epoch or (duty.until and not before.until):
            # its deadline may come a message after the lease
            self._next_at = max(boottime(), duty.sent_at + duty.keepalive_s)
        self._watch()

    def _set_until(self, before: Duty, duty: Duty) -> None:
        if duty.epoch == before.epoch and duty.until and duty.until <= self._until:
            # what was renewed meanwhile counts
            return
        if duty.epoch == before.epoch and before.until and self._until <= boottime() and duty.until:
            # it has passed: nothing of this mastership brings it back
            return
        if duty.until != self._until:
            self._write(duty.until)

    def _write(self, until: float) -> None:
        self._until = until
        self._writer.set(until)

    # renewing

    def _renew(self) -> None:
        duty = self._duty
        if boottime() >= self._until:
            self._next_at = math.inf
            self._report(Late(duty.epoch))
            return
        if boottime() - self._heard_at > duty.patience_s:
            # nothing is renewed for a keeperd that hangs; its next word is waited for
            self._next_at = boottime() + _PAUSE_S
            if not self._is_deserted:
                self._is_deserted = True
                self._report(Told("lease.not_renewed", "the main process is silent"))
            return
        self._is_deserted = False
        for _ in self._endpoints:
            if self._try_once(duty) or self._duty.epoch != duty.epoch or not self._duty.lease:
                return
        self._next_at = boottime() + _PAUSE_S

    def _try_once(self, duty: Duty) -> bool:
        """Ask the endpoint that replied last; return whether the outcome is known. The next one is asked otherwise."""
        endpoint = self._endpoints[0]
        sent_at = boottime()
        try:
            lives_s = ask_for_lease(endpoint, self._who, duty.lease, duty.request_s)
        except Silent as silent:
            self._endpoints.append(self._endpoints.pop(0))
            self._report(Told("keepalive.failed", f"{endpoint.place.label}: {silent}"))
            self._hear(0)
            self._feed()
            return False
        # what keeperd wants may have changed while this was asked
        self._hear(0)
        if self._duty.epoch == duty.epoch and self._duty.lease == duty.lease:
            self._renewed(duty, sent_at) if lives_s > 0 else self._gone(duty)
        return True

    def _renewed(self, duty: Duty, sent_at: float) -> None:
        if boottime() >= self._until:
            self._next_at = math.inf
            self._report(Late(duty.epoch))
            return
        self._write(max(self._until, sent_at + duty.deadline_s))
        self._next_at = sent_at + duty.keepalive_s
        self._feed()
        self._report(Renewed(duty.epoch, sent_at))

    def _gone(self, duty: Duty) -> None:
        self._next_at = math.inf
        self._report(Gone(duty.epoch, "etcd does not know the lease any more"))

    # the watchdog

    def _watch(self) -> None:
        """Open or close the watchdog, as it is wanted."""
        if self._dog is not None and not self._duty.watchdog:
            self._dog.close()
            self._dog = None
            self._feed_at = math.inf
            self._report(Watching("", is_open=False))
        elif self._dog is None and self._duty.watchdog:
            try:
                self._dog = Watchdog(self._duty.watchdog, self._duty.watchdog_s)
            except Unfit as error:
                if self._unfit != str(error):
                    self._unfit = str(error)
                    self._report(Watching(self._unfit, is_open=False))
                return
            self._unfit = ""
            self._feed_at = boottime()
            self._report(Watching("", is_open=True))

    def _feed(self) -> None:
        now = boottime()
        if self._dog is None or now < self._feed_at:
            return
        self._feed_at = now + _FEED_S
        # it bites at the deadline at the latest
        if now + self._dog.timeout_s <= self._until and not self._duty.is_starving:
            try:
                self._dog.feed()
            except OSError as error:
                self._report(Told("watchdog.not_fed", os.strerror(error.errno or 0).lower()))

    def _report(self, report: Report) -> None:
        # a main process that reads nothing will miss some: the deadline passes, and that it sees by itself
        with contextlib.suppress(BlockingIOError, BrokenPipeError, ConnectionResetError):
            self._line.send(encode(report), socket.MSG_DONTWAIT)
