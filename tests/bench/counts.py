"""What a lock call and a job take, counted: turns of epoll, futexes, page faults, modules and functions passed.

A busy machine changes counts little. System calls are counted by perf (Debian's linux-perf, as root), which hardly
slows them: a daemon under strace finds its next call already there, and does not wait for it. Page faults are counted
by the kernel, and functions by an interpreter that notes the first call of each. Each count has a run of its own.
"""

import contextlib
import mmap
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import CodeType, FrameType
from typing import Final

from tests.bench.figures import show
from tests.bench.jobs import many_jobs, one_job
from tests.bench.locks import hand_overs, lock_updates
from tests.support.cluster import Cluster

CALLS: Final = ("epoll_wait", "epoll_ctl", "futex", "recvfrom", "sendto")
_PARTS: Final[Mapping[str, tuple[int, Callable[[Cluster, int], object]]]] = {
    "lock call, 1 connection": (600, lambda cluster, count: lock_updates(cluster, count, 1)),
    "lock call, 4 connections": (600, lambda cluster, count: lock_updates(cluster, count, 4)),
    "hand-over of a lock": (300, hand_overs),
    "one job alone": (20, one_job),
    "job of a mass": (60, many_jobs),
}
_COUNTED: Final = ("wconfd", "luxid")
_ENTRY: Final = "syscalls:sys_enter_"
_PERF: Final = ("perf", "stat", "-x,", *(word for call in CALLS for word in ("-e", f"{_ENTRY}{call}")))
# perf does not say when it begins
_ATTACHED_S: Final = 0.5
_COMMAND: Final = ("gnt-job", "run", "--wait", "--lock", "node/web1", "--", "true")
_OURS: Final = ("cli.", "common.", "daemons.", "protocol.")


def main() -> None:
    can_count = _can_count()
    if not can_count:
        print("system calls are not counted: that needs perf, and root's rights")
    with tempfile.TemporaryDirectory(prefix="gantry-counts-") as folder:
        with Cluster(Path(folder) / "cluster") as cluster:
            cluster.start("wconfd", "forkserver", "luxid")
            for part, (count, run) in _PARTS.items():
                run(cluster, count // 2)
                _show_page_faults(cluster, part, count, run)
                if can_count:
                    _show_system_calls(cluster, part, count, run)
        passed = functions_passed(Path(folder) / "passed")
    for process, functions in passed.items():
        modules = len({module for module, _ in functions})
        show(f"{' '.join(_COMMAND)}: functions passed in {process}", len(functions), "", f"in {modules} modules")
    every = set().union(*passed.values())
    modules = len({module for module, _ in every})
    show(f"{' '.join(_COMMAND)}: functions passed in all", len(every), "", f"in {modules} modules")


def _show_page_faults(cluster: Cluster, part: str, count: int, run: Callable[[Cluster, int], object]) -> None:
    """Minor ones; those of children count when they have ended."""
    pids = {name: cluster.daemons[name].pid for name in ("wconfd", "luxid", "forkserver")}
    before = {name: _faults(pid) for name, pid in pids.items()}
    run(cluster, count)
    own, jobs = {}, 0
    for name, pid in pids.items():
        own[name], children = (after - then for after, then in zip(_faults(pid), before[name], strict=True))
        jobs += children
    for name, faults in {**own, "job process": jobs}.items():
        if faults > count:
            show(f"{part}: page faults of {name}", faults / count, "")


def _faults(pid: int) -> tuple[int, int]:
    """Minor page faults of a process, and of its children that have ended: fields 10 and 11 of proc(5)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[7]), int(fields[8])


def _show_system_calls(cluster: Cluster, part: str, count: int, run: Callable[[Cluster, int], object]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        with ExitStack() as counters:
            for name in _COUNTED:
                counters.enter_context(_counted(cluster.daemons[name].pid, Path(folder, name)))
            run(cluster, count)
        for name in _COUNTED:
            made = _system_calls(Path(folder, name).read_text())
            # an idle daemon has a few, too
            if sum(made.values()) > count / 2:
                for call, number in made.items():
                    show(f"{part}: {call} of {name}", number / count, "")


@contextlib.contextmanager
def _counted(pid: int, summary: Path) -> Iterator[None]:
    """Count the system calls of a process with all its threads."""
    perf = subprocess.Popen([*_PERF, "-p", str(pid), "-o", str(summary)])
    try:
        time.sleep(_ATTACHED_S)
        assert perf.poll() is None, "perf does not count"
        yield
    finally:
        perf.send_signal(signal.SIGINT)
        perf.wait()


def _can_count() -> bool:
    return (
        shutil.which("perf") is not None
        and not subprocess.run([*_PERF, "true"], check=False, stderr=subprocess.DEVNULL).returncode
    )


def _system_calls(summary: str) -> dict[str, int]:
    """From perf's lines: count, unit, event, and more, with commas between."""
    rows = (line.split(",") for line in summary.splitlines() if line.count(",") > 2)
    return {row[2].removeprefix(_ENTRY): int(row[0]) for row in rows}


def functions_passed(root: Path) -> dict[str, set[tuple[str, str]]]:
    """Module and name of each function of Gantry that a warm `gnt-job run` passes, by process."""
    from tests.reliability.farm import Farm, be_a_runner
    from tests.reliability.trial import make_installation

    make_installation(root)
    # a number in memory that all processes share: each notes anew what it calls when that has changed; 0: nothing
    turn = mmap.mmap(-1, 1)
    log = root / "functions"
    log.touch()
    be_a_runner()
    farm = Farm(root, lambda name: _Noting(turn, log, name).begin())
    try:
        farm.start()
        for number in (0, 0, 1):
            turn[0] = number
            _be_the_command(root, _Noting(turn, log, "cli"))
            # what follows its end
            time.sleep(0.5)
        turn[0] = 0
    finally:
        farm.kill_everything()
    found: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)
    for line in log.read_text().splitlines():
        process, module, name = line.rsplit(" ", 2)
        found[process].add((module, name))
    return dict(found)


class _Noting:
    """Notes in a process, and in those that it forks, each function of Gantry at its first call of a turn."""

    def __init__(self, turn: mmap.mmap, log: Path, process: str) -> None:
        self._turn = turn
        self._log = log
        self._process = process
        self._noted_in = 0
        self._noted: set[CodeType] = set()

    def begin(self) -> None:
        os.register_at_fork(after_in_child=self._become_child)
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        code, turn = frame.f_code, self._turn[0]
        if event != "call" or not turn:
            return
        if turn != self._noted_in:
            self._noted_in, self._noted = turn, set()
        if code in self._noted:
            return
        self._noted.add(code)
        module = frame.f_globals.get("__name__", "")
        # bodies of modules and comprehensions are no functions
        if module.startswith(_OURS) and not code.co_name.startswith("<"):
            line = f"{self._process} {module} {code.co_qualname}:{code.co_firstlineno}\n"
            descriptor = os.open(self._log, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
            os.write(descriptor, line.encode())
            os.close(descriptor)

    def _become_child(self) -> None:
        self._process = "job process" if self._process == "forkserver" else f"child of {self._process}"


def _be_the_command(root: Path, noting: _Noting) -> None:
    pid = os.fork()
    if pid:
        _, status = os.waitpid(pid, 0)
        assert status == 0, f"'{' '.join(_COMMAND)}' has ended with {os.waitstatus_to_exitcode(status)}"
        return
    code = 70
    try:
        os.environ["GANTRY_ROOT"] = str(root)
        sys.argv = list(_COMMAND)
        with Path(os.devnull).open("wb") as nothing:
            os.dup2(nothing.fileno(), 1)
        from cli.job.main import main as command

        noting.begin()
        command()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    finally:
        os._exit(code)
