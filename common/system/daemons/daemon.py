"""The life of a daemon with a trio loop: signals, readiness, and an end with a reason.

Source: luxid.md 5.10.
"""

import signal
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Protocol

import attrs
import trio

from common.errors import GantryError
from common.nodes.mastershipnotes import note_not_master
from common.replication import NoLongerMaster
from common.settings import Settings
from common.system.daemons.descriptors import raise_limit
from common.system.daemons.memory import return_large_blocks
from common.system.daemons.program import AddOptions, Options, fail, prepare, read_options
from common.system.daemons.sdnotify import notify
from common.system.daemons.watchdog import give_signs
from common.system.log import get_log, reopen_log

_log = get_log(__name__)


class Serve(Protocol):
    """A daemon: runs until cancelled; calls `started` once its sockets listen and its state is loaded."""

    def __call__(self, settings: Settings, *, task_status: trio.TaskStatus[None]) -> Awaitable[None]: ...


# decides whether the daemon may run on this node. Raises: NoLongerMaster, GantryError, OSError: it may not
Admit = Callable[[Settings, Options], Awaitable[None]]


async def _anywhere(_: Settings, __: Options) -> None:
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
