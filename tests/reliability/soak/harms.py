"""What can befall an installation that runs: each harm strikes at once, and most of them pass."""

import contextlib
import mmap
import os
import random
import resource
import signal
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import attrs

from common.system.livelock import livelocks_of_jobs, process_of
from tests.reliability.farm import ALL, Farm

_OFFSET: Final = struct.Struct("d")
_FILLER: Final = "filler"
# a daemon needs some twenty to run; its connections, and the files that it opens, do not fit any more
_FEW_DESCRIPTORS: Final = (12, 40)
_YEAR_S: Final = 365 * 86_400.0


class Clock:
    """An offset of the wall clock, shared by all processes of an installation."""

    def __init__(self, path: Path) -> None:
        path.write_bytes(_OFFSET.pack(0.0))
        with path.open("r+b") as file:
            self._shared = mmap.mmap(file.fileno(), _OFFSET.size)

    def jump(self, offset_s: float) -> None:
        self._shared[:] = _OFFSET.pack(offset_s)

    def rule(self) -> None:
        """Let this process, and what it forks, live by this clock."""
        real, real_ns = time.time, time.time_ns
        time.time = lambda: real() + self._offset_s()
        time.time_ns = lambda: real_ns() + int(self._offset_s() * 1e9)

    def _offset_s(self) -> float:
        offset: float = _OFFSET.unpack(self._shared)[0]
        return offset


@attrs.frozen
class Scene:
    """Where harm is done."""

    farm: Farm
    clock: Clock
    chance: random.Random
    # whether the installation has a file system of its own, which may be filled
    has_own_disk: bool


# strikes; returns what ends it, or None if it is over at once, and what to say of it
Harm = Callable[[Scene], tuple[str, Callable[[], None] | None]]


def kill_daemon(scene: Scene) -> tuple[str, None]:
    name = scene.chance.choice(ALL)
    scene.farm.kill(name)
    return f"kill -9 {name}", None


def kill_all_daemons(scene: Scene) -> tuple[str, None]:
    scene.farm.kill()
    return "kill -9 of all daemons", None


def end_daemon(scene: Scene) -> tuple[str, None]:
    name = scene.chance.choice(ALL)
    pid = scene.farm.pids.get(name, 0)
    # one that is stopped would never hear of it, and one without descriptors holds its last write until it has some
    _signal(pid, signal.SIGCONT)
    _give_back(pid)
    scene.farm.kill(name, number=signal.SIGTERM)
    return f"kill -TERM {name}", None


def kill_job_process(scene: Scene) -> tuple[str, None]:
    pids = list(_job_pids(scene.farm))
    if not pids:
        return "no job process to kill", None
    with contextlib.suppress(ProcessLookupError):
        os.kill(scene.chance.choice(pids), signal.SIGKILL)
        return "kill -9 of a job process", None
    return "job process ended before", None


def stop_daemon(scene: Scene) -> tuple[str, Callable[[], None]]:
    name = scene.chance.choice(ALL)
    pid = scene.farm.pids.get(name, 0)
    _signal(pid, signal.SIGSTOP)
    return f"stop {name}", lambda: _go_on(scene.farm, pid)


def jump_clock(scene: Scene) -> tuple[str, None]:
    offset_s = scene.chance.choice((-3600.0, 3600.0, -_YEAR_S, _YEAR_S, 0.0, -0.5))
    scene.clock.jump(offset_s)
    return f"clock {offset_s:+.1f} s", None


def take_descriptors(scene: Scene) -> tuple[str, Callable[[], None]]:
    name = scene.chance.choice(ALL)
    pid = scene.farm.pids.get(name, 0)
    _limit_descriptors(pid, scene.chance.randint(*_FEW_DESCRIPTORS))
    return f"{name} has few descriptors", lambda: _give_back(pid)


def fill_disk(scene: Scene) -> tuple[str, Callable[[], None] | None]:
    if not scene.has_own_disk:
        return "no disk of its own to fill", None
    filler = scene.farm.root / _FILLER
    with filler.open("wb", buffering=0) as file:
        for size in (2**20, 4096, 1):
            with contextlib.suppress(OSError):
                while True:
                    file.write(bytes(size))
    return "disk full", lambda: filler.unlink(missing_ok=True)


# with how often each is chosen
HARMS: Final[tuple[tuple[Harm, int], ...]] = (
    (kill_daemon, 10),
    (kill_all_daemons, 2),
    (end_daemon, 2),
    (kill_job_process, 6),
    (stop_daemon, 4),
    (jump_clock, 2),
    (take_descriptors, 3),
    (fill_disk, 2),
)


def _job_pids(farm: Farm) -> Iterator[int]:
    with contextlib.suppress(OSError):
        yield from (pid for path in livelocks_of_jobs(farm.paths.livelocks).values() if (pid := process_of(path)))


def _go_on(farm: Farm, pid: int) -> None:
    # otherwise it was killed meanwhile, and the number may be another's
    if pid in farm.pids.values():
        _signal(pid, signal.SIGCONT)


def _signal(pid: int, number: signal.Signals) -> None:
    if pid:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _give_back(pid: int) -> None:
    """Let it have all that it may; what it had when a harm began may have been the little left by another."""
    _limit_descriptors(pid, None)


def _limit_descriptors(pid: int, limit: int | None) -> None:
    """Set the soft limit; None: as high as it goes."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if pid:
            _, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (hard if limit is None else limit, hard))
