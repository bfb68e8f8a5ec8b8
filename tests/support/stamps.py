"""Commands that tell when they ran: each appends its stamps to one file, whose order is the order of time.

A line is `JOB:OPCODE start` or `JOB:OPCODE end`; a line this short is appended whole.
"""

import shlex
from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import attrs

_ME = "$GANTRY_JOB_ID:$GANTRY_OPCODE_INDEX"


@attrs.frozen
class Run:
    """One execution of one opcode: the places of its stamps in the file."""

    start: int
    # None: it never came to its end
    end: int | None


class Stamps:
    """The file, and the opcodes that write to it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self.path = folder / "stamps"
        self.path.touch()

    def work(self, *, seconds: float = 0.1, exit_code: int = 0, **fields: Any) -> dict[str, Any]:
        """An opcode that stamps, works for so long, and stamps."""
        return self._op(f"sleep {seconds}", f"exit {exit_code}", fields)

    def gated(self, gate: str, **fields: Any) -> dict[str, Any]:
        """An opcode that stamps, waits until `open_gate(gate)`, and stamps."""
        return self._op(f"until [ -e {self._file(gate)} ]; do sleep 0.01; done", "exit 0", fields)

    def meeting(self, me: str, other: str, *, patience_s: float, **fields: Any) -> dict[str, Any]:
        """An opcode that succeeds if the other one of the pair runs, or has run; fails if it waits for too long."""
        tries = int(patience_s / 0.01)
        look = f"n={tries}; until [ -e {self._file(other)} ]; do n=$((n-1)); [ $n -gt 0 ] || break; sleep 0.01; done"
        return self._op(f"touch {self._file(me)}; {look}", f"[ -e {self._file(other)} ]", fields)

    def open_gate(self, gate: str) -> None:
        (self.folder / gate).touch()

    def lines(self) -> list[str]:
        return self.path.read_text().splitlines()

    def runs(self, job_id: int, opcode: int = 0) -> list[Run]:
        """All executions of an opcode."""
        lines = self.lines()
        starts = [place for place, line in enumerate(lines) if line == f"{job_id}:{opcode} start"]
        ends = [place for place, line in enumerate(lines) if line == f"{job_id}:{opcode} end"]
        return [Run(start, ends[place] if place < len(ends) else None) for place, start in enumerate(starts)]

    def run(self, job_id: int, opcode: int = 0) -> Run:
        """The only execution of an opcode."""
        runs = self.runs(job_id, opcode)
        assert len(runs) == 1, f"opcode {opcode} of job {job_id} ran {len(runs)} times: {self.lines()}"
        return runs[0]

    def assert_nothing_ran_twice(self) -> None:
        repeated = {line: count for line, count in Counter(self.lines()).items() if count > 1}
        assert not repeated, f"ran more than once: {repeated}"

    def assert_never_together(self, job_ids: Iterable[int]) -> None:
        """No two of these jobs, of one opcode each, ran at the same time."""
        jobs = {str(job_id) for job_id in job_ids}
        inside: str | None = None
        for line in self.lines():
            job, _, what = line.partition(":0 ")
            if job not in jobs:
                continue
            if what == "start":
                assert inside is None, f"job {job} started while job {inside} ran: {self.lines()}"
            inside = job if what == "start" else None

    def assert_in_order(self, *job_ids: int) -> None:
        """Each of these jobs started only after the one before it had ended."""
        for before, after in pairwise(job_ids):
            end = self.run(before).end
            assert end is not None
            assert end < self.run(after).start, f"job {after} did not wait for job {before}: {self.lines()}"

    def _op(self, body: str, last: str, fields: dict[str, Any]) -> dict[str, Any]:
        log = shlex.quote(str(self.path))
        script = f'echo "{_ME} start" >> {log}; {body}; echo "{_ME} end" >> {log}; {last}'
        return {"OP_ID": "OP_RUN_COMMAND", "argv": ["/bin/sh", "-c", script], **fields}

    def _file(self, name: str) -> str:
        return shlex.quote(str(self.folder / name))
