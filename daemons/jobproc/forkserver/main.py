"""gantry-forkserver: a process that has everything imported, and forks a child for each job.

Theory. Starting an interpreter takes a tenth of a second, forking a warm one two milliseconds. For
this the parent must stay simple: one thread, no event loop library, and its objects frozen, so that
the children's garbage collection does not touch, and so copy, the memory that they share with it.
Half of a child's work is such copying; so the parent makes once what each child would make anew
(`warmup`, `rehearsal`).

It outlives luxid, which finds it by its socket, and its end does not touch the jobs: they go on, and
their livelocks report their deaths. SIGHUP makes it start over with fresh code in the same
process. First a copy is tried that only reads the settings and imports everything; if that works, exec replaces the
program, while the listening socket stays open and its queue keeps the clients that connect meanwhile.

Source: DESIGN section 7; protocol.forkserver.
"""

import contextlib
import gc
import os
import signal
import socket
import stat
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import orjson

from common.commands.cgroups import take_groups
from common.commands.surroundings import take_surroundings
from common.daemons import NodeKind
from common.errors import Conflict, GantryError
from common.ids import JobId
from common.installation import check_safe, use_plugins
from common.nodes.nodeplace import place_of, why_not_master
from common.replica.replica import NoLongerMaster
from common.settings import Settings
from common.settingsfile import ROOT_VARIABLE, load_settings
from common.system.log import get_log
from common.system.program import DaemonOptions, PidFile, fail, notify, prepare, read_options
from common.system.signals import HANDLED
from daemons.jobproc.forkserver.server import TRIAL, Children, ExitWatch, ForkServer
from daemons.jobproc.forkserver.warmup import rehearse, warm_up, warm_up_for_nodes
from protocol.unixsocket import reachable

NAME: Final = "forkserver"
# variable set across an exec, with the state that the previous program leaves for the next one
INHERITED: Final = "GANTRY_FORKSERVER_INHERITED"
_BACKLOG: Final = 128
_log = get_log(__name__)


def _listen(path: Path) -> socket.socket:
    """Listen at `path`, which only our own user may use. We hold the pid file, so an existing socket is stale.

    Raises: Conflict: the file there is not a socket. OSError.
    """
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise Conflict(f"{path} is not a socket; move it away")
        path.unlink()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    try:
        with reachable(path) as address:
            listener.bind(address)
        # clients cannot connect before listen(), so a wider mode never takes effect
        path.chmod(0o600)
        listener.listen(_BACKLOG)
    except BaseException:
        listener.close()
        raise
    return listener


def _take_over() -> tuple[socket.socket, Children] | None:
    """The state that the previous program left in this process; None at a first start."""
    text = os.environ.pop(INHERITED, None)
    if text is None:
        return None
    left = orjson.loads(text)
    listener = socket.socket(fileno=left["listener"])
    listener.setblocking(False)
    os.set_inheritable(listener.fileno(), False)
    return listener, Children({int(pid): JobId(job_id) for pid, job_id in left["jobs"].items()})


def _exec_fresh_code(listener: socket.socket, children: Children, pid_file: PidFile) -> None:
    """Replace this program by the code on disk. The signals in `HANDLED` are blocked: their default action is death.

    Raises: OSError: it cannot be executed.
    """
    left = {"listener": listener.fileno(), "jobs": {str(pid): job_id for pid, job_id in children.jobs.items()}}
    os.environ[INHERITED] = orjson.dumps(left).decode()
    os.set_inheritable(listener.fileno(), True)
    pid_file.keep_over_exec()
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def _run(options: DaemonOptions) -> None:
    # until the loop runs, signals wait: an extra HUP must not end the process
    signal.pthread_sigmask(signal.SIG_SETMASK, HANDLED)
    take_surroundings()
    settings, pid_file = prepare(NAME, options)
    use_plugins(settings)
    # wconfd and luxid ask the other nodes too; without luxid nobody wants a job here
    if not options.force_node and place_of(settings) is not NodeKind.MASTER:
        raise NoLongerMaster(why_not_master(settings) or "this node is not the master")
    guard = _guard(settings)
    if options.root is not None:
        # programs that a unit starts by itself find the installation that they belong to
        os.environ[ROOT_VARIABLE] = os.path.abspath(options.root)
    path = settings.paths.forkserver_socket
    listener, children = _take_over() or (_listen(path), Children({}))
    groups = take_groups(settings.jobproc.cgroups, settings.paths.run)
    _warm_up_for(settings)
    rehearse(settings)
    gc.collect()
    gc.freeze()
    server = ForkServer(settings, listener, children, groups, guard)
    holding = groups.way.value if groups is not None else "descendants"
    _log.info("forkserver.ready", pid=os.getpid(), socket=path, jobs=len(children.jobs), commands_held_by=holding)
    notify("READY=1")
    wants_exec = server.serve()
    server.close()
    if wants_exec:
        _log.info("code.renewed")
        notify("RELOADING=1")
        _exec_fresh_code(listener, children, pid_file)
    notify("STOPPING=1")
    path.unlink(missing_ok=True)
    listener.close()
    pid_file.release()
    if groups is not None:
        groups.sweep()
    _log.info("forkserver.ended", jobs_left=len(children.jobs))


def _guard(settings: Settings) -> ExitWatch | None:
    """Raises: NoLongerMaster: this node does not hold the mastership. DamagedFile, OSError."""
    if not settings.cluster.has_lease:
        return None
    # imported late: most installations are one machine
    from daemons.jobproc.forkserver.leaseend import LeaseEnd

    return LeaseEnd.of(settings.paths)


def _warm_up_for(settings: Settings) -> None:
    """Raises: ImportError and others: a plug-in is broken."""
    warm_up()
    if settings.cluster.has_nodes:
        warm_up_for_nodes()
    if settings.paths.launcher_socket.exists():
        # else each command of another user would import it
        import protocol.launcher  # noqa: F401


def _try(options: DaemonOptions) -> None:
    """Do what fails at a start with bad settings or broken code, and change nothing.

    Raises: as `_run`; ImportError and others: a plug-in is broken.
    """
    settings = load_settings(options.root)
    check_safe(settings)
    use_plugins(settings)
    _warm_up_for(settings)


def main(argv: Sequence[str] | None = None) -> None:
    """The program gantry-forkserver."""
    options = read_options("gantry-forkserver", "Forks a process for each job.", argv)
    is_trial = os.environ.pop(TRIAL, None) is not None
    if is_trial:
        # the state of the service is the fork server's to tell
        os.environ.pop("NOTIFY_SOCKET", None)
    try:
        (_try if is_trial else _run)(options)
    except (GantryError, OSError) as error:
        fail("gantry-forkserver", error)


if __name__ == "__main__":
    main()
