"""gantry-supervisor: keeps the daemons of an installation running; `gantry up` is or starts one.

In the foreground it reports events on standard output, and errors on standard error, until SIGTERM, SIGINT or
SIGHUP. With `--report FD` it reports on that descriptor, and closes it when all daemons are ready: a program that
starts the supervisor in the background shows these lines. The exit code is 1 if a daemon does not start.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final, Protocol, TextIO

from common.daemons import WARNING
from common.errors import GantryError, explain
from common.installation import take_up, up_command
from common.nodes.nodeplace import daemons_here
from common.paths import Paths
from common.printable import printable
from common.settingsfile import load_settings, named_root
from common.system.log import get_log, set_up_logging
from common.system.processes import going_on_words
from common.system.program import release
from daemons.supervisor.supervising import DaemonSupervisor, StopSignal
from protocol.blocking import BlockingClient
from protocol.luxi.queries import QueryJobs

# The supervisor's message when it is asked to stop: what becomes of the jobs.


_WITH_PROCESS: Final = ("waiting", "canceling", "running")
_PATIENCE_S: Final = 5.0


def farewell(paths: Paths, root: Path | None) -> str:
    """What goes on, and the command that finds it again. Call it while luxid still runs."""
    if _holds_lease(paths):
        return "stopping; the mastership is given up, and jobs on this node itself end"
    commands = going_on_words(paths.node_commands)
    return _jobs_words(paths, root) + (f"; {commands}" if commands else "")


def _holds_lease(paths: Paths) -> bool:
    # imported late: most installations are one machine
    from common.lease.grant import is_held

    try:
        return is_held(paths)
    except (GantryError, OSError):
        return False


def _jobs_words(paths: Paths, root: Path | None) -> str:
    try:
        with BlockingClient(paths.query_socket, connect_timeout_s=0, daemon="luxid") as luxid:
            rows = luxid.call(QueryJobs(None, ("status",)), timeout_s=_PATIENCE_S)
    except (GantryError, OSError):
        return f"stopping; jobs that run go on, found again by: {up_command(root)}"
    going_on = sum(row[0] in _WITH_PROCESS for row in rows)
    if not going_on:
        return "stopping; no job runs"
    return f"stopping; {going_on} job{'s go' if going_on > 1 else ' goes'} on, found again by: {up_command(root)}"


PROGRAM: Final = "gantry-supervisor"
_log = get_log(__name__)


class SupervisorOutput(Protocol):
    """The output of the supervisor."""

    def tell(self, text: str) -> None: ...
    def complain(self, text: str) -> None: ...
    def all_ready(self) -> None: ...
    def stopping(self, text: str) -> None: ...


class Screen:
    """The foreground: a user watches until the end."""

    def tell(self, text: str) -> None:
        _print(_shown(text), sys.stderr if text.startswith(WARNING) else sys.stdout)

    def complain(self, text: str) -> None:
        _print(_shown(f"error: {text}"), sys.stderr)

    def all_ready(self) -> None:
        self.tell("up; Ctrl-C stops the daemons")

    def stopping(self, text: str) -> None:
        # the terminal shows ^C at the beginning of this line
        _print(f"\n{_shown(text)}", sys.stderr)


def _print(text: str, stream: TextIO) -> None:
    try:
        print(text, file=stream, flush=True)
    except BrokenPipeError:
        raise
    except OSError:
        # the terminal has hung up
        _log.info("supervisor.said", text=text.strip())


class ReadyReport:
    """A descriptor with a reader until all daemons are ready; later messages go to the log."""

    def __init__(self, report: TextIO) -> None:
        self._report = report

    def tell(self, text: str) -> None:
        if self._report.closed:
            _log.info("supervisor.said", text=text)
        else:
            self._report.write(_shown(text) + "\n")

    def complain(self, text: str) -> None:
        self.tell(f"error: {text}")

    def all_ready(self) -> None:
        self._report.close()

    def stopping(self, text: str) -> None:
        _log.info("supervisor.stopping")


def _shown(text: str) -> str:
    return "\n".join(map(printable, text.splitlines()))


def main(argv: Sequence[str] | None = None) -> None:
    """Keep the daemons running until a signal comes."""
    given = _read_arguments(argv)
    telling: SupervisorOutput = (
        Screen() if given.report is None else ReadyReport(os.fdopen(given.report, "w", buffering=1))
    )
    try:
        is_done = _supervise(named_root(given.root), telling)
    except BrokenPipeError:
        # the output has no reader any more; the daemons have been stopped
        os._exit(1)
    except (GantryError, OSError) as error:
        telling.complain(explain(error))
        sys.exit(1)
    except Exception as error:
        _log.exception("supervisor.crashed")
        telling.complain(f"internal error ({type(error).__name__}); the log of the supervisor tells where")
        sys.exit(1)
    sys.exit(0 if is_done else 1)


def _supervise(root: Path | None, telling: SupervisorOutput) -> bool:
    """Return whether all daemons were ready before a signal came."""
    settings = load_settings(root)
    take_up(settings)
    paths = settings.paths
    set_up_logging("supervisor", path=paths.supervisor_log)
    with DaemonSupervisor(partial(daemons_here, settings), paths, root, telling.tell) as supervisor:
        try:
            supervisor.start_all()
        except StopSignal:
            telling.complain("stopped before all daemons were ready")
            return False
        telling.all_ready()
        supervisor.keep_running()
        telling.stopping(farewell(paths, root))
    return True


def _read_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(PROGRAM, description="Start the daemons, and keep them running.")
    parser.add_argument("--root", type=Path, metavar="DIR", help="a private installation: DIR/lib, DIR/run, DIR/log")
    parser.add_argument("--report", type=int, metavar="FD", help="report events there, until all are ready")
    parser.add_argument("--version", action="version", version=f"%(prog)s {release()}")
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
