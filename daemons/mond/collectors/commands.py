"""The commands that run on this node, those of its own jobs and those of a master, and what they use.

Theory. Each command has a control group, whose name says what it is; the processes in it are found by their own files,
so that neither the version of the groups nor their place matters. Where there are no groups, none is found, and the
report says so.

Source: DESIGN sections 13 and 16.
"""

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Final

import attrs

from common.commands.cgroups import folder_name
from daemons.mond.collectors.base import Collector, Measured
from daemons.mond.core.procfiles import command_of, process_use
from daemons.mond.core.reports import Category, Number

_PROCESSES: Final = Path("/proc")


@attrs.define
class _Command:
    """A command, and what its processes use."""

    job: int
    # None: that of the job which runs
    opcode: int | None
    from_master: bool
    processes: int = 0
    cpu_s: float = 0.0
    # bytes
    memory: int = 0


class Commands(Collector):
    """Processes, CPU time and memory of each command. Cost: O(processes of the machine)."""

    NAME: ClassVar[str] = "commands"
    CATEGORY: ClassVar[Category | None] = Category.DAEMON
    INTERVAL_S: ClassVar[float] = 15.0

    def collect(self) -> Measured:
        commands = list(_commands(folder_name(str(self.settings.paths.run))).values())
        data = {
            "has_groups": self.settings.jobproc.cgroups != "off",
            "commands": [{**attrs.asdict(each), "cpu_s": round(each.cpu_s, 2)} for each in commands],
        }
        processes, memory = (sum(getattr(each, name) for each in commands) for name in ("processes", "memory"))
        numbers = (
            Number("gantry_node_commands", len(commands), help="Commands with processes on the node"),
            Number("gantry_node_commands_processes", processes, help="Processes of all commands"),
            Number("gantry_node_commands_memory_bytes", memory, help="Memory of all commands"),
        )
        return Measured(data, numbers)


def _commands(folder: str) -> Mapping[str, _Command]:
    """The commands with groups in a folder of that name, by the names of their groups."""
    tick_s, page = 1 / os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    found: dict[str, _Command] = {}
    for place in (_PROCESSES / name for name in os.listdir(_PROCESSES) if name.isdigit()):
        # a process may end meanwhile
        with contextlib.suppress(OSError, ValueError):
            name = command_of((place / "cgroup").read_text(), folder)
            if name is None:
                continue
            use = process_use((place / "stat").read_text())
            command = found.setdefault(name, _named(name))
            command.processes += 1
            command.cpu_s += use.cpu_ticks * tick_s
            command.memory += use.memory_pages * page
    return found


def _named(name: str) -> _Command:
    """What the name of a group says: `job-7`, `job-7-detached-0` (its opcode), `command-7.0.1` (a master's job)."""
    kind, _, rest = name.partition("-")
    if kind == "command":
        job, op, _ = rest.split(".")
        return _Command(int(job), int(op), from_master=True)
    job, is_detached, op = rest.partition("-detached-")
    return _Command(int(job), int(op) if is_detached else None, from_master=False)
