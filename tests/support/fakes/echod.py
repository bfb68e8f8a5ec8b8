"""A daemon that Gantry does not have: a row, and a program that listens. For tests of what an added row brings."""

import socket
from pathlib import Path

import common.daemons
from common.daemons import Daemon
from common.settings import Settings

ROW = Daemon(
    name="echod",
    module="tests.support.fakes.echod",
    pid_file="gantry-echod.pid",
    log_file="echo-daemon.log",
    socket="gantry-echod",
    started_after=("luxid",),
)


def add_row() -> None:
    """Let this process know it, as if it stood in `common/daemons.py`."""
    if ROW not in common.daemons.DAEMONS:
        # before luxid, which it is started after all the same
        common.daemons.DAEMONS = (ROW, *common.daemons.DAEMONS)  # type: ignore[misc]


def add_to_all(folder: Path) -> Path:
    """A folder for PYTHONPATH: every Python that is started with it knows the row."""
    (folder / "sitecustomize.py").write_text("from tests.support.fakes.echod import add_row\nadd_row()\n")
    return folder


def main() -> None:
    import trio

    from common.system.daemon import run_daemon

    async def serve(settings: Settings, *, task_status: "trio.TaskStatus[None]") -> None:
        with socket.socket(socket.AF_UNIX) as listener:
            path = settings.paths.socket("echod")
            path.unlink(missing_ok=True)
            listener.bind(str(path))
            listener.listen()
            task_status.started()
            await trio.sleep_forever()

    add_row()
    run_daemon("echod", "a daemon for tests", serve)


if __name__ == "__main__":
    main()
