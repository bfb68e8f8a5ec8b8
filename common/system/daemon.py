"""The life of a daemon with a trio loop: signals, readiness, and an end with a reason.

Source: luxid.md 5.10.
"""

import argparse
import contextlib
import ctypes
import resource
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final, Protocol

import attrs
import trio

from common.daemons import Feature
from common.errors import GantryError, InvalidRequest
from common.nodes.mastership import note_not_master
from common.replica.replica import NoLongerMaster
from common.settings import Settings
from common.settingsfile import load_settings
from common.system.log import get_log, reopen_log
from common.system.program import (
    SIGN,
    AddOptions,
    DaemonOptions,
    fail,
    notify,
    prepare,
    read_options,
    sign_interval_s,
    tell_stacks_at_the_end,
)


async def give_signs() -> None:
    """Give signs for as long as this task runs; return at once if nobody waits for them."""
    interval_s = sign_interval_s()
    if interval_s is None:
        return
    tell_stacks_at_the_end()
    while True:
        notify(SIGN)
        await trio.sleep(interval_s)


# Return freed memory to the system.
#
# The C library maps a large block separately, and returns it as soon as it is freed. But after each such
# free it raises the size from which a block is large, up to 32 MiB, and puts smaller ones among others, where
# longer-lived ones keep them from being returned: after 40 messages of 12 MiB a daemon kept 90 MB for good.
#
# Source: mallopt(3), `M_MMAP_THRESHOLD`.


# size of a block that is returned when it is freed: the C library's initial threshold, now fixed
LARGE_BYTES: Final = 128 * 2**10
_M_MMAP_THRESHOLD: Final = -3


def return_large_blocks() -> bool:
    """Make the C library return large freed blocks to the system at once, for this process.

    Returns: False where the C library cannot do it.
    """
    try:
        return bool(ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, LARGE_BYTES))
    except (OSError, AttributeError):
        return False


# The number of descriptors of a daemon.
#
# Systems give a process 1,024 descriptors at first, and let it raise the limit itself, which a daemon does.
# `protocol.serving.server` decides how many of them callers get, so that the rest is left for files.
# Programs that a daemon starts get the original limit, because some of them use select(), which cannot handle numbers
# above 1,023. (The fork server does not raise its limit: its children would inherit it.)
#
# Source: DESIGN section 11, "an error of the disk or of descriptors".


# default maximum of Linux (fs.nr_open); a limit may also be infinite
_MOST: Final = 2**20

# soft limit before it was raised; None: it was not raised
_given: int | None = None


def raise_limit() -> int:
    """Raise the limit of descriptors as far as allowed; return the limit."""
    global _given
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = hard if 0 <= hard <= _MOST else _MOST
    if 0 <= soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            _given = soft
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def take_back_limit(pid: int) -> None:
    """Set a child's limit of descriptors back to the original limit of this process."""
    if _given is None:
        return
    # the child may have ended
    with contextlib.suppress(OSError, ValueError):
        hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)[1]
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (_given, hard))


_log = get_log(__name__)


class Serve(Protocol):
    """A daemon: runs until cancelled; calls `started` once its sockets listen and its state is loaded."""

    def __call__(self, settings: Settings, *, task_status: trio.TaskStatus[None]) -> Awaitable[None]: ...


# decides whether the daemon may run on this node. Raises: NoLongerMaster, GantryError, OSError: it may not
Admit = Callable[[Settings, DaemonOptions], Awaitable[None]]


async def _anywhere(_: Settings, __: DaemonOptions) -> None:
    pass


@attrs.frozen
class OwnOptions:
    """Options of one daemon, besides those of all."""

    add: AddOptions
    # returns the settings with the values that were given, by the names of the options. Raises: GantryError
    use: Callable[[Settings, Mapping[str, object]], Settings]


def run_daemon(
    name: str, description: str, serve: Serve, admit: Admit = _anywhere, own: OwnOptions | None = None
) -> None:
    """Run a daemon until SIGTERM or SIGINT; SIGHUP reopens the log; SIGUSR1 does nothing.

    The limit of descriptors is raised as far as allowed.
    A daemon that cannot start, or that later fails because of its state, logs the reason and exits with 1; with 11, and
    a note for others, if this node is not the master.
    """
    return_large_blocks()
    options = read_options(f"gantry-{name}", description, add_options=own.add if own else None)
    try:
        settings, pid_file = prepare(name, options)
        if own is not None:
            settings = own.use(settings, options.more)
    except (GantryError, OSError) as error:
        fail(name, error)
    _log.info("descriptors.allowed", count=raise_limit())
    failures: list[Exception] = []
    try:
        trio.run(_life, settings, partial(admit, settings, options), serve)
    except* (GantryError, OSError) as group:
        # Python before 3.11.4 wraps an exception raised here in a group
        failures.append(_first(group))
    finally:
        pid_file.release()
    if failures:
        _note_if_not_master(settings, failures[0])
        fail(name, failures[0])


def _note_if_not_master(settings: Settings, error: Exception) -> None:
    if isinstance(error, NoLongerMaster):
        try:
            note_not_master(settings.paths, error.message)
        except OSError as failure:
            _log.warning("master.not_noted", reason=failure)


def _first(group: BaseExceptionGroup[Exception]) -> Exception:
    inner = group.exceptions[0]
    return _first(inner) if isinstance(inner, BaseExceptionGroup) else inner


async def _life(settings: Settings, admit: Callable[[], Awaitable[None]], serve: Serve) -> None:
    async with trio.open_nursery() as nursery:
        await nursery.start(_obey_signals, nursery.cancel_scope)
        await admit()
        await nursery.start(serve, settings)
        _log.info("daemon.ready")
        notify("READY=1")
        nursery.start_soon(give_signs)
    notify("STOPPING=1")
    _log.info("daemon.stopped")


async def _obey_signals(scope: trio.CancelScope, *, task_status: trio.TaskStatus[None]) -> None:
    # USR1 is for job processes; if it arrives here by a mistaken pid, it must not end the daemon
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1) as signals:
        task_status.started()
        async for number in signals:
            if number == signal.SIGHUP:
                reopen_log()
                continue
            if number == signal.SIGUSR1:
                _log.warning("signal.ignored", signal="SIGUSR1")
                continue
            _log.info("daemon.stopping", signal=signal.Signals(number).name)
            scope.cancel()
            return


# Options of daemons that listen at one address; they count more than the settings file, as those of Ganeti's do.
#
# Source: confd.md 1; mond.md 1.


_CHECK = "--check-enabled"


def tell_if_enabled(feature: Feature) -> None:
    """End the program if systemd only asks whether the settings enable it: with 0 if they do, else with 1."""
    if _CHECK in sys.argv[1:]:
        sys.exit(0 if feature in load_settings().features else 1)


def listen_options(table: str) -> OwnOptions:
    """The options. Args: table: name of the daemon's settings, which have `address` and `port`."""

    def add(parser: argparse.ArgumentParser) -> None:
        # obeyed before the others are looked at
        parser.add_argument(_CHECK, action="store_true", help="only tell by the exit code whether it is enabled")
        parser.add_argument("-b", "--bind", metavar="ADDRESS", help="address to listen at, instead of the settings'")
        parser.add_argument("-p", "--port", type=int, metavar="PORT", help="port to listen at")

    def use(settings: Settings, given: Mapping[str, object]) -> Settings:
        """Raises: InvalidRequest: a value that the setting cannot have."""
        names = {"bind": "address", "port": "port"}
        changes = {names[option]: given[option] for option in names if given.get(option) is not None}
        try:
            own = attrs.evolve(getattr(settings, table), **changes)
        except ValueError as error:
            raise InvalidRequest(f"an option cannot be used: {error}") from None
        return attrs.evolve(settings, **{table: own})

    return OwnOptions(add, use)
