"""How each daemon of this node is, as a user of the installation can see it."""

from collections.abc import Sequence
from typing import Final

import attrs

from cli.connection import open_luxid, open_wconfd
from cli.context import up_command
from common.daemons import Daemon
from common.errors import GantryError, RemoteError
from common.paths import Paths
from common.system.daemons.lastfailure import last_failure
from common.system.daemons.running import Running, find_daemon
from protocol.dial import dial
from protocol.luxi.cluster import QueryConfigValues
from protocol.wconfd.locks import Echo

# seconds after which a daemon counts as silent: it is stopped, or its disk hangs
_ANSWER_S: Final = 10.0


@attrs.frozen
class DaemonStatus:
    """A daemon of this node."""

    name: str
    running: Running | None
    # whether it replies to calls
    is_ready: bool
    # whether its pid file is unreadable for this user
    is_hidden: bool = False
    # whether it accepted the call but did not reply in time
    is_silent: bool = False
    # why one that the others can do without did not start; None: it is not known
    why_down: str | None = None

    @property
    def state(self) -> str:
        if self.is_ready:
            return "ready"
        if self.is_silent:
            return "silent"
        return "unknown" if self.is_hidden else "down" if self.running is None else "starting"


def daemon_status(paths: Paths, daemon: Daemon) -> DaemonStatus:
    """Ask a daemon, which may take some seconds if it is silent."""
    name, is_hidden = daemon.name, False
    try:
        running = find_daemon(paths, name)
    except PermissionError:
        running, is_hidden = None, True
    # a daemon without a socket is known by its pid file only
    may_be_up = running is not None or (is_hidden and daemon.socket is not None)
    try:
        is_ready = may_be_up and _answers(paths, daemon)
    except TimeoutError:
        return DaemonStatus(name, running, is_ready=False, is_hidden=is_hidden, is_silent=True)
    why_down = None if is_ready or daemon.is_needed else last_failure(paths.log_file(name))
    return DaemonStatus(name, running, is_ready, is_hidden, why_down=why_down)


def _answers(paths: Paths, daemon: Daemon) -> bool:
    """Whether a running daemon replies. Raises: TimeoutError: it accepted the call and is silent."""
    try:
        match daemon.name:
            case "luxid":
                with open_luxid(is_patient=False) as luxid:
                    luxid.call(QueryConfigValues(()), timeout_s=_ANSWER_S)
            case "wconfd":
                with open_wconfd(is_patient=False) as wconfd:
                    wconfd.call(Echo("status"), timeout_s=_ANSWER_S)
            case name if daemon.socket is not None:
                dial(paths.socket(name), name).close()
            case _:
                # its process is there, and nothing can be asked
                pass
    except RemoteError:
        # the reply is a refusal: this user may not ask
        return True
    except GantryError as error:
        if isinstance(error.__cause__, TimeoutError):
            raise error.__cause__ from None
        return False
    return True


def is_ready(daemons: Sequence[DaemonStatus], name: str) -> bool:
    return any(daemon.name == name and daemon.is_ready for daemon in daemons)


def is_down(daemons: Sequence[DaemonStatus], name: str) -> bool:
    return any(daemon.name == name and not daemon.is_ready and not daemon.is_hidden for daemon in daemons)


def what_is_wrong(daemons: Sequence[DaemonStatus], paths: Paths, *, has_supervisor: bool) -> str:
    """Why not all of these daemons are ready, and what to do; at least one is not."""
    missing = [daemon for daemon in daemons if not daemon.is_ready]
    if (why := missing[0].why_down) is not None and len(missing) == 1:
        what = "it is tried again, and" if has_supervisor else f"start it with: {up_command()};"
        return f"{missing[0].name} did not start: {why}; {what} all else runs"
    names = [daemon.name for daemon in missing]
    which = f"{', '.join(names)} {'is' if len(names) == 1 else 'are'}"
    if silent := [daemon for daemon in daemons if daemon.is_silent]:
        name, running = silent[0].name, silent[0].running
        which = f"'{paths.log_file(name)}'" + (f" and 'cat /proc/{running.pid}/stack'" if running else "")
        return f"{name} gave no answer for {_ANSWER_S:g} s; is it stopped, or its disk? {which} may tell"
    if any(daemon.is_hidden and not daemon.is_ready for daemon in daemons):
        return (
            f"{which} not reached, and this user may not read the pid files in '{paths.run}'; "
            f"ask to be in the group of '{paths.sockets}', or try as its owner"
        )
    if has_supervisor:
        return f"{which} not ready; the supervisor starts what ended again, look once more in a moment"
    return f"{which} not ready; start with: {up_command()}"
