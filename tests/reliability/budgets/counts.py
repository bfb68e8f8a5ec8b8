"""What one job costs, counted: `python -m tests.reliability.budgets.counts [JOBS] [--command]`.

Real daemons run a job that does nothing under one lock, or the command `true`, alone and again, and every process
counts its durable operations, the files that it opens, the messages that it sends, and its birth. Prints a JSON
object: process -> kind -> count of one job, the median of all jobs; then, if asked by `--paths`, what each durable
operation was about.
"""

import argparse
import collections
import fcntl
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from tests.reliability.faults.faults import scratch
from tests.reliability.syscalls import SystemCall, bare_open, bare_write, set_gate, wrap_system_calls

DURABLE: Final = "durable"
# of `locks.data`, which is made whole seconds after a change, for all jobs of these seconds together
WHOLE: Final = "whole"
OPENED: Final = "opened"
SENT: Final = "sent"
BORN: Final = "born"
# a job is over in this time
_QUIET_S: Final = 0.5
NO_OP: Final[dict[str, Any]] = {"OP_ID": "OP_TEST_DUMMY", "locks": {"node/n1": "shared"}}
COMMAND: Final[dict[str, Any]] = {"OP_ID": "OP_RUN_COMMAND", "argv": ["/bin/true"]}
Counts = dict[str, dict[str, int]]


class CountingGate:
    """The gate of a process: a line for each call that counts, `role kind path`."""

    def __init__(self, root: Path, role: str, log: Path) -> None:
        self.root = str(root)
        self._role = role
        self._log = log
        # what was last written and is not durable
        self._lagging = b""
        os.register_at_fork(after_in_child=self._become_child)

    def passes(self, call: SystemCall) -> Any:
        made = call.make()
        if kind := self._kind_of(call):
            self._count(kind, call.path)
        return made

    def _kind_of(self, call: SystemCall) -> str | None:
        if call.name == "fsync":
            return WHOLE if "/locks.data" in call.path or call.path.endswith("/lib") else DURABLE
        if call.name == "write":
            line = bytes(call.args[1])
            if not fcntl.fcntl(call.args[0], fcntl.F_GETFL) & os.O_DSYNC:
                self._lagging = line
                return None
            # the last lines of a journal: what lagged once more, and that it ends
            return WHOLE if line == self._lagging or b'{"next":' in line else DURABLE
        return {"open": OPENED, "send": SENT}.get(call.name)

    def _become_child(self) -> None:
        self._role = "job" if self._role == "forkserver" else "command"
        self._count(BORN, "")

    def _count(self, kind: str, path: str) -> None:
        fd = bare_open(self._log, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        bare_write(fd, f"{self._role} {kind} {path}\n".encode())
        os.close(fd)


def count(root: Path, jobs: int, op: dict[str, Any]) -> tuple[Counts, list[str]]:
    """Args: op: the opcode of each job. Returns: the counts, and the lines of the last job."""
    from common.paths import Paths
    from protocol.blocking import BlockingClient
    from protocol.luxi.jobs import SubmitJob
    from tests.reliability.farm import Farm
    from tests.reliability.trial import make_installation

    make_installation(root)
    log = root / "counts"
    log.touch()
    farm = Farm(root, lambda name: set_gate(CountingGate(root, name, log)))
    found: list[list[str]] = []
    try:
        farm.start()
        with BlockingClient(Paths.under_root(root).query_socket) as client:
            for _ in range(jobs + 1):
                time.sleep(_QUIET_S)
                log.write_bytes(b"")
                client.call(SubmitJob((op,)))
                time.sleep(_QUIET_S)
                found.append(log.read_text().splitlines())
    finally:
        farm.kill_everything()
    return _medians([_tally(lines) for lines in found[1:]]), found[-1]


def _tally(lines: list[str]) -> collections.Counter[tuple[str, str]]:
    return collections.Counter((role, kind) for role, kind, _ in (line.split(" ", 2) for line in lines))


def _medians(tallies: list[collections.Counter[tuple[str, str]]]) -> Counts:
    counts: Counts = {}
    for role, kind in sorted({key for tally in tallies for key in tally}):
        counts.setdefault(role, {})[kind] = int(statistics.median(tally[role, kind] for tally in tallies))
    return counts


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Count what one job costs.")
    parser.add_argument("jobs", type=int, nargs="?", default=5)
    parser.add_argument("--command", action="store_true", help="count a command instead")
    parser.add_argument("--paths", action="store_true", help="print the lines of the last job, too")
    given = parser.parse_args(arguments)
    wrap_system_calls()
    from tests.reliability.farm import be_a_runner

    be_a_runner()
    with tempfile.TemporaryDirectory(prefix="gantry-counts-", dir=scratch()) as folder:
        counts, lines = count(Path(folder) / "root", given.jobs, COMMAND if given.command else NO_OP)
    print(json.dumps(counts))
    if given.paths:
        print(*lines, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
