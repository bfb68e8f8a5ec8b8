"""What befalls candidates, their ways, and etcd: each harm strikes at once, and most of them pass."""

import contextlib
import os
import random
import signal
import subprocess
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import attrs

from tests.cli.command import argv, environment
from tests.support.cluster import Cluster
from tests.support.etcds.etcd import Etcd, EtcdMember
from tests.support.machines.leasefleet import Candidate, LeaseFleet, send
from tests.support.machines.proxy import Behaviour

_DAEMONS: Final = ("keeperd", "luxid", "wconfd", "forkserver", "noded")
_CUTS: Final = (Behaviour.STOP, Behaviour.DELAY, Behaviour.RESET, Behaviour.GARBAGE, Behaviour.HALF)
_FILLER: Final = "filler"
# harms hit the master more often than the others
_MASTER_SHARE: Final = 0.6


@attrs.frozen
class Scene:
    """Where harm is done. Args: has_disks: whether each node has a file system of its own, which may be filled."""

    fleet: LeaseFleet
    chance: random.Random
    has_disks: bool

    @property
    def etcd(self) -> Etcd:
        return self.fleet.etcd

    def victim(self) -> Candidate:
        master = self.fleet.master()
        if master is not None and self.chance.random() < _MASTER_SHARE:
            return master
        return self.chance.choice(list(self.fleet))


@attrs.frozen
class Struck:
    """What was done. Args: end: ends it; None: it is over at once."""

    what: str
    end: Callable[[], None] | None = None


Harm = Callable[[Scene], Struck]


def kill_daemon(scene: Scene) -> Struck:
    victim, daemon = scene.victim(), scene.chance.choice(_DAEMONS)
    victim.kill(daemon)
    return Struck(f"kill -9 {daemon}")


def kill_half_of_keeperd(scene: Scene) -> Struck:
    pids = scene.victim().pids("keeperd")
    if pids:
        send(scene.chance.choice(pids), signal.SIGKILL)
    return Struck("kill -9 one process of keeperd")


def kill_all_of_the_master(scene: Scene) -> Struck:
    scene.victim().kill("luxid", "wconfd", "forkserver", "keeperd")
    return Struck("kill -9 all daemons of a master")


def kill_job_process(scene: Scene) -> Struck:
    pids = list(scene.victim().cluster.job_pids())
    if pids:
        send(scene.chance.choice(pids), signal.SIGKILL)
    return Struck("kill -9 a job process")


def kill_node(scene: Scene) -> Struck:
    victim = scene.victim()
    victim.crash()
    return Struck("kill -9 a whole node", victim.up)


def stop_daemon(scene: Scene) -> Struck:
    victim, daemon = scene.victim(), scene.chance.choice(_DAEMONS)
    pids = victim.signal(signal.SIGSTOP, daemon)
    return Struck(f"stop {daemon}", lambda: _go_on(pids))


def stop_half_of_keeperd(scene: Scene) -> Struck:
    pids = scene.victim().pids("keeperd")[: scene.chance.randint(1, 2)][-1:]
    for pid in pids:
        send(pid, signal.SIGSTOP)
    return Struck("stop one process of keeperd", lambda: _go_on(pids))


def stop_node(scene: Scene) -> Struck:
    victim = scene.victim()
    pids = victim.freeze()
    return Struck("stop a whole node", lambda: victim.thaw(pids))


def kill_member(scene: Scene) -> Struck:
    member = scene.chance.choice(scene.etcd.members)
    member.kill()
    return Struck("kill -9 a member of etcd", lambda: None if member.is_running else member.spawn())


def stop_member(scene: Scene) -> Struck:
    return _stop_members("stop a member of etcd", [scene.chance.choice(scene.etcd.members)])


def stop_most_members(scene: Scene) -> Struck:
    return _stop_members("stop most members of etcd", scene.etcd.members[: len(scene.etcd.members) // 2 + 1])


def _stop_members(what: str, members: Sequence[EtcdMember]) -> Struck:
    pids = [member.pid for member in members if member.is_running]
    for pid in pids:
        send(pid, signal.SIGSTOP)

    def go_on() -> None:
        # one that was killed meanwhile has another pid now
        _go_on(member.pid for member in members if member.is_running and member.pid in pids)

    return Struck(what, go_on)


def cut_from_etcd(scene: Scene) -> Struck:
    victim, behaviour = scene.victim(), scene.chance.choice(_CUTS)
    victim.cut_from_etcd(behaviour)
    return Struck(f"etcd {behaviour.value}", victim.heal)


def cut_from_a_member(scene: Scene) -> Struck:
    victim, behaviour = scene.victim(), scene.chance.choice(_CUTS)
    scene.chance.choice(victim.etcd_ways).behave(behaviour)
    return Struck(f"a member of etcd {behaviour.value}", victim.heal)


def cut_from_nodes(scene: Scene) -> Struck:
    victim, behaviour = scene.victim(), scene.chance.choice(_CUTS)
    victim.cut_from_nodes(behaviour)
    return Struck(f"node {behaviour.value}", victim.heal)


def fill_disk(scene: Scene) -> Struck:
    if not scene.has_disks:
        return Struck("no disk to fill")
    filler = scene.victim().cluster.root / _FILLER
    with filler.open("wb", buffering=0) as file:
        for size in (2**20, 4096, 1):
            with contextlib.suppress(OSError):
                while True:
                    file.write(bytes(size))
    return Struck("disk full", lambda: filler.unlink(missing_ok=True))


def switch_over(scene: Scene) -> Struck:
    master = scene.fleet.master()
    if master is None:
        return Struck("no master to switch over")
    words = argv("gantry", "--root", master.cluster.root, "cluster", "switchover", "--kill", "--limit", "30s")
    asking = subprocess.Popen(words, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def end() -> None:
        asking.kill()
        asking.wait()

    return Struck("switch over", end)


# with how often each is chosen
HARMS: Final[tuple[tuple[Harm, int], ...]] = (
    (kill_daemon, 8),
    (kill_half_of_keeperd, 2),
    (kill_all_of_the_master, 2),
    (kill_job_process, 3),
    (kill_node, 4),
    (stop_daemon, 6),
    (stop_half_of_keeperd, 2),
    (stop_node, 3),
    (kill_member, 2),
    (stop_member, 2),
    (stop_most_members, 1),
    (cut_from_etcd, 5),
    (cut_from_a_member, 2),
    (cut_from_nodes, 3),
    (fill_disk, 2),
    (switch_over, 2),
)


def _go_on(pids: Iterable[int]) -> None:
    for pid in pids:
        send(pid, signal.SIGCONT)


def disk_of(cluster: Cluster, size: str) -> list[str]:
    """The command that gives an installation a file system of its own; only root may run it."""
    options = f"size={size},mode=755"
    return ["mount", "-t", "tmpfs", "-o", options, "gantry-lease", os.fspath(cluster.root)]
