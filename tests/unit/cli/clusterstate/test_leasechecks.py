"""`gnt-cluster verify` on etcd, the mastership, and what is to end an old master (DESIGN section 14; lease.md 6)."""

from pathlib import Path

import attrs
import pytest

from cli.cluster.verifycluster import guard_notes, guard_problems, lease_notes, lease_problems
from common.featuresettings import KeeperdSettings
from common.lease.records import Role
from protocol.keeperd import ClusterView, EtcdMemberView
from tests.support.fakes.clusterviews import master, replica


def etcd(number: int, **changes: object) -> EtcdMemberView:
    values = {"endpoint": f"http://10.0.0.{number}:2379", "version": "3.5.16", "db_bytes": 10, "quota_bytes": 100}
    return EtcdMemberView(name=f"etcd{number}", **{**values, **changes})  # type: ignore[arg-type]


SOUND = ClusterView(
    asked="node1",
    state="master",
    master="node1",
    epoch=7,
    ttl_s=10.0,
    members=(master("node1", 7), replica("node2", 7)),
    etcd=(etcd(1), etcd(2), etcd(3)),
)


def problems(view: ClusterView, *, allows_broken: bool = False) -> str:
    return "\n".join(lease_problems(view, allows_broken=allows_broken))


def with_etcd(**changes: object) -> ClusterView:
    return attrs.evolve(SOUND, etcd=(etcd(1, **changes), *SOUND.etcd[1:]))


def with_member(**changes: object) -> ClusterView:
    return attrs.evolve(SOUND, members=(SOUND.members[0], replica("node2", 7, **changes)))


def test_a_sound_cluster_has_no_faults() -> None:
    assert problems(SOUND) == ""
    assert lease_notes(SOUND) == []


@pytest.mark.parametrize(
    ("view", "told"),
    [
        (attrs.evolve(SOUND, master=""), "no node is the master; the last epoch is 7"),
        (attrs.evolve(SOUND, alarms=("NOSPACE",)), "alarm NOSPACE"),
        (attrs.evolve(SOUND, problems=("node2 has another lease",)), "node2 has another lease"),
        (with_etcd(version="3.5.1"), "'etcd1' is of 3.5.1, which may lose data"),
        (with_etcd(version="", failure="connection refused"), "'etcd1' at http://10.0.0.1:2379 does not reply"),
        (with_etcd(db_bytes=81), "'etcd1' has used 81 % of its quota"),
        (with_member(copies="stale"), "'node2' is new, or was away so long"),
        (with_member(role=Role.SILENT), "'node2' is silent, and cannot take over"),
        (with_member(role=Role.DOUBT), "'node2' is in doubt"),
    ],
)
def test_each_fault_is_told_once(view: ClusterView, told: str) -> None:
    (found,) = lease_problems(view, allows_broken=False)

    assert told in found


def test_bounds_are_no_faults() -> None:
    assert problems(with_etcd(db_bytes=80)) == ""
    assert problems(with_member(since_s=86400.0)) == ""
    assert problems(with_etcd(version="3.5.1"), allows_broken=True) == ""


def test_what_is_no_fault_is_told_as_a_note() -> None:
    view = attrs.evolve(SOUND, etcd=SOUND.etcd[:2], maintenance=True, dirty=3)
    one = attrs.evolve(SOUND, etcd=SOUND.etcd[:1])

    told = "\n".join(lease_notes(view))
    assert "maintenance is on" in told
    assert "2 members, which tolerate no more losses than 1" in told
    assert "3 changes are kept in etcd" in told
    assert "etcd has one member" in "\n".join(lease_notes(one))


def test_what_is_to_end_an_old_master_must_be_there(tmp_path: Path) -> None:
    agent, plain = tmp_path / "agent", tmp_path / "plain"
    agent.write_text("#!/bin/sh\n")
    agent.chmod(0o755)
    plain.touch()

    def faults(**settings: object) -> str:
        return "\n".join(guard_problems(KeeperdSettings(**settings)))  # type: ignore[arg-type]

    assert faults(watchdog="/dev/null", fence=(str(agent),), address_program=str(agent)) == ""
    assert "'/dev/no-watchdog' cannot be used: No such file" in faults(watchdog="/dev/no-watchdog")
    assert "is not a device" in faults(watchdog=str(plain))
    assert f"fence agent '{plain}' may not be executed" in faults(fence=(str(plain),))
    assert "fence agent '/no/agent' is not there" in faults(fence=("/no/agent",))
    assert "'/bin/true' fences nothing" in faults(fence=("/bin/true",))
    assert "address program '/no/program' is not there" in faults(address_program="/no/program")


def test_that_nothing_ends_an_old_master_is_a_note() -> None:
    assert "gantry fenced NODE" in guard_notes(KeeperdSettings())[0]
    assert guard_notes(KeeperdSettings(watchdog="/dev/watchdog")) == []
