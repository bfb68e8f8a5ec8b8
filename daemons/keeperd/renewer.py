"""keeperd's side of the renewing process: starts it, tells it what is wanted, hears what became of it.

Theory. The deadline is a file of shared memory that this process makes once and the other one writes, so that daemons
go on if the renewing process has to be started anew. Each message carries all that is wanted; so does the heartbeat,
which is sent only while the machine of keeperd gets on.

Source: lease.md 7 and 8.
"""

import socket
import subprocess
from collections.abc import Callable
from typing import Final, assert_never

import attrs
import trio

from common.lease.deadline import DeadlineWriter
from common.lease.times import LeaseTimes, watchdog_s
from common.settings import Settings
from common.system.inthread import in_thread
from common.system.log import get_log
from common.system.processes import python_command, python_environment
from common.system.shortages import retry_pauses
from daemons.keeperd.core.events import Event, LeaseLost, LeaseRenewed
from daemons.keeperd.renewing import orders
from daemons.keeperd.renewing.orders import MAX_MESSAGE, Duty, Report, ResolvedEndpoint, Setup, decode, encode
from protocol.etcd.address import Endpoint

_MODULE: Final = "daemons.keeperd.renewing.program"
# heartbeats within a lease
_BEATS: Final = 20
_END_S: Final = 2.0
_log: Final = get_log(__name__)


class Renewer:
    """Args:
    report: is told what became of the lease.
    is_well: whether the machine gets on; false: no heartbeat.
    watchdog_unfit: is told why the watchdog cannot be used; empty: it can.
    """

    def __init__(
        self,
        settings: Settings,
        report: Callable[[Event], None],
        is_well: Callable[[], bool],
        watchdog_unfit: Callable[[str], None],
    ) -> None:
        self._settings = settings
        self._report = report
        self._is_well = is_well
        self._watchdog_unfit = watchdog_unfit
        self._writer = DeadlineWriter(settings.paths.deadline_file)
        self._duty = Duty()
        self._line: socket.socket | None = None

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Keep the process running; started when there is one. Cancellation: ends it."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._beat)
                pauses = retry_pauses()
                is_first = True
                while True:
                    await self._one(task_status if is_first else trio.TASK_STATUS_IGNORED)
                    is_first = False
                    _log.error("renewing.ended", effect="the lease is not renewed meanwhile", going_on="a new process")
                    await trio.sleep(next(pauses))
        finally:
            # nobody moves it on any more
            self._writer.set(0)

    # what is wanted

    @property
    def wants_watchdog(self) -> bool:
        """Whether the renewing process has the watchdog open, or is about to."""
        return bool(self._duty.watchdog)

    def hold(self, epoch: int, until: float) -> None:
        """Let the daemons of the master act until then; 0: not at all."""
        duty = attrs.evolve(self._duty, epoch=epoch, until=until)
        keeperd = self._settings.keeperd
        if until and keeperd.watchdog:
            duty = attrs.evolve(duty, watchdog=keeperd.watchdog, watchdog_s=watchdog_s(keeperd))
        self._want(duty)
        if not until:
            # at once, even if the other process hangs
            self._writer.set(0)

    def renew(self, epoch: int, lease: int, times: LeaseTimes, sent_at: float) -> None:
        """Renew this lease from now on."""
        self._want(
            attrs.evolve(
                self._duty,
                epoch=epoch,
                lease=lease,
                keepalive_s=times.keepalive_s,
                request_s=times.request_s,
                deadline_s=times.deadline_s,
                patience_s=times.ttl_s / 2,
                sent_at=sent_at,
            )
        )

    def renew_no_more(self) -> None:
        self._want(attrs.evolve(self._duty, lease=0))

    def close_watchdog(self) -> None:
        """Nothing lives that ran under the mastership."""
        self._want(attrs.evolve(self._duty, watchdog="", watchdog_s=0))

    def starve_watchdog(self) -> bool:
        """Open the watchdog and feed it no more, as a test; false: there is none."""
        keeperd = self._settings.keeperd
        if not keeperd.watchdog:
            return False
        dog_s = watchdog_s(keeperd)
        self._want(attrs.evolve(self._duty, watchdog=keeperd.watchdog, watchdog_s=dog_s, is_starving=True))
        return True

    def _want(self, duty: Duty) -> None:
        self._duty = duty
        self._send()

    def _send(self) -> None:
        if self._line is None:
            return
        try:
            self._line.send(encode(self._duty))
        except (BlockingIOError, BrokenPipeError, ConnectionResetError):
            # it hangs, or has ended: then the deadline passes, or the next process gets this
            _log.warning("renewing.not_told", effect="it is told again with the next heartbeat")

    async def _beat(self) -> None:
        pause_s = self._settings.keeperd.ttl_s / _BEATS
        while True:
            await trio.sleep(pause_s)
            if self._is_well():
                self._send()

    # the process

    async def _one(self, task_status: trio.TaskStatus[None]) -> None:
        """Start a process, and hear it until it ends."""
        setup = await setup_of(self._settings)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours, theirs:
            command = python_command(_MODULE, str(theirs.fileno()))
            process = await in_thread(_spawn, command, theirs.fileno())
            theirs.close()
            try:
                ours.setblocking(False)
                ours.send(encode(setup))
                self._line = ours
                self._send()
                await self._hear(ours, task_status)
            finally:
                self._line = None
                ours.close()
                with trio.CancelScope(shield=True):
                    await in_thread(_end, process)

    async def _hear(self, line: socket.socket, task_status: trio.TaskStatus[None]) -> None:
        """Return when the process has ended; started when it has begun."""
        while True:
            await trio.lowlevel.wait_readable(line)
            try:
                data = line.recv(MAX_MESSAGE)
            except BlockingIOError:
                continue
            except ConnectionResetError:
                return
            if not data:
                return
            report = decode(data)
            if isinstance(report, orders.RenewerReady):
                task_status.started()
            elif not isinstance(report, Setup | Duty):
                self._take(report)

    def _take(self, report: Report) -> None:
        match report:
            case orders.Renewed(epoch, sent_at):
                self._report(LeaseRenewed(epoch, sent_at))
            case orders.Gone(epoch, reason):
                _log.error("lease.gone", epoch=epoch, reason=reason)
                self._report(LeaseLost(epoch))
            case orders.Late(epoch):
                _log.error("deadline.passed", epoch=epoch)
            case orders.WatchdogState(failure, is_open):
                self._watchdog_unfit(failure)
                if not failure:
                    _log.info("watchdog.open" if is_open else "watchdog.closed")
            case orders.LogMessage(event, text):
                _log.warning(event, reason=text)
            case orders.RenewerReady():
                pass
            case _:
                assert_never(report)


async def setup_of(settings: Settings) -> Setup:
    """All that the process needs; names are looked up again and again until one is found."""
    etcd = settings.etcd
    places: list[ResolvedEndpoint] = []
    pauses = retry_pauses()
    while not places:
        for url in etcd.endpoints:
            endpoint = Endpoint.of(url)
            try:
                found = await trio.socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
            except OSError as error:
                _log.warning("etcd.name_unknown", host=endpoint.host, reason=error)
                continue
            # a member may listen at one of them only, as for localhost
            for family, _, _, _, address in found:
                places.append(
                    ResolvedEndpoint(int(family), tuple(address), endpoint.host, endpoint.port, endpoint.is_tls)
                )
        if not places:
            await trio.sleep(next(pauses))
    return Setup(
        str(settings.paths.deadline_file),
        tuple(places),
        user=etcd.user,
        password_file=etcd.password_file,
        ca_file=etcd.ca_file,
        cert_file=etcd.cert_file,
        key_file=etcd.key_file,
    )


def _spawn(command: list[str], fd: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command, pass_fds=(fd,), env=python_environment(), cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    """It ends by itself when its line is closed."""
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
