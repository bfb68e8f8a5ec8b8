"""The configuration of a trial changes as wconfd's does, and only under the instance's lock. Source: wconfd.md 2.3."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import attrs
import pytest

from common.errors import RemoteError
from common.lockdecl import LockDeclaration, Resolver, declare
from common.locks import LockLevel, LockMode, member_lock
from common.objects.kinds import AdminState, DiskUuid
from common.opcodes.base import OpCode
from daemons.jobproc.configuration import UnitConfig
from daemons.jobproc.context import UnitContext
from daemons.jobproc.testing import Mistake, UnitTrial
from daemons.jobproc.units.base import LogicalUnit
from tests.support.configs import disk, instance, small_config

Change = Callable[[UnitConfig], Any]
NEW = instance("uuid-new")


@attrs.frozen(kw_only=True)
class OpChange(OpCode):
    OP_ID: ClassVar[str] = "OP_CHANGE"
    is_locked: bool = True

    def lock_declaration(self, resolve: Resolver | None = None) -> LockDeclaration:
        name = str(NEW.name) if self.is_locked else "another"
        return declare({member_lock(LockLevel.INSTANCE, name): LockMode.EXCLUSIVE})


def changing(*changes: Change) -> type[LogicalUnit[OpChange]]:
    class ChangeUnit(LogicalUnit[OpChange]):
        OPCODE: ClassVar[type[OpCode]] = OpChange

        def run(self, context: UnitContext) -> None:
            for change in changes:
                change(context.config)

    return ChangeUnit


def after(tmp_path: Path, *changes: Change) -> UnitTrial:
    trial = UnitTrial(tmp_path, config=small_config())
    trial.carry_out(changing(lambda config: config.add_instance(NEW), *changes), {})
    return trial


def test_an_instance_is_added_changed_and_removed(tmp_path: Path) -> None:
    trial = after(
        tmp_path,
        lambda config: config.set_instance_status(NEW.uuid, AdminState.DOWN),
        lambda config: config.set_primary_node(NEW.uuid, "uuid-other"),
    )

    found = trial.config.instances[NEW.uuid]  # type: ignore[index]
    assert (found.admin_state, found.primary_node) == (AdminState.DOWN, "uuid-other")
    assert trial.config_changes == ["addInstance", "setInstanceStatus", "setInstancePrimaryNode"]
    assert not after(tmp_path, lambda config: config.remove_instance(NEW.uuid)).config.instances


def test_disks_are_attached_in_their_place_and_taken_away(tmp_path: Path) -> None:
    steps: list[Change] = [
        lambda config: config.add_disk(NEW.uuid, disk("a")),
        lambda config: config.add_disk(NEW.uuid, disk("b"), 0),
        lambda config: config.detach_disk(NEW.uuid, "a"),
        lambda config: config.attach_disk(NEW.uuid, "a", 0),
        lambda config: config.remove_disk(NEW.uuid, "b"),
    ]

    seen = []
    for count in range(len(steps) + 1):
        config = after(tmp_path, *steps[:count]).config
        seen.append((config.instances[NEW.uuid].disks, sorted(config.disks)))  # type: ignore[index]

    a, b = DiskUuid("a"), DiskUuid("b")
    assert seen == [
        ((), []),
        ((a,), ["a"]),
        ((b, a), ["a", "b"]),
        ((b,), ["a", "b"]),
        ((a, b), ["a", "b"]),
        ((a,), ["a"]),
    ]


def test_a_disk_is_guarded_by_the_lock_of_its_instance(tmp_path: Path) -> None:
    def enlarge(config: UnitConfig) -> None:
        config.update(attrs.evolve(config.config.disks[DiskUuid("a")], size=7))

    trial = after(tmp_path, lambda config: config.add_disk(NEW.uuid, disk("a")), enlarge)

    assert trial.config.disks[DiskUuid("a")].size == 7
    assert trial.config_changes[-1] == "updateDisk"


def test_ports_are_given_once_and_given_back(tmp_path: Path) -> None:
    ports: list[int] = []

    def take(config: UnitConfig) -> None:
        ports.append(config.allocate_port())

    after(tmp_path, take, take, lambda config: config.return_port(ports[0]), take)

    assert ports[0] != ports[1]
    assert ports[2] == ports[0]


@pytest.mark.parametrize(
    "change",
    [
        lambda config: config.remove_instance("nowhere"),
        lambda config: config.detach_disk(NEW.uuid, "nowhere"),
    ],
)
def test_what_is_not_there_is_refused(tmp_path: Path, change: Change) -> None:
    with pytest.raises(RemoteError, match="there is no object nowhere among the"):
        after(tmp_path, change)


def test_a_change_of_another_instance_than_the_locked_one_is_a_mistake(tmp_path: Path) -> None:
    trial = UnitTrial(tmp_path, config=small_config())

    with pytest.raises(Mistake, match=f"'instance/{NEW.name}' is used and needs to be held exclusive"):
        trial.carry_out(changing(lambda config: config.add_instance(NEW)), {"is_locked": False})
