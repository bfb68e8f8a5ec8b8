"""What a unit has found is locked as its opcode declares (`daemons/jobproc/units/base.py`)."""

from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar, cast

import attrs
import pytest

from common.errors import PrerequisiteError
from common.lockdecl import ALL_SHARED, SOME_EXCLUSIVE, SOME_SHARED, LockRules, shared
from common.locks import LockLevel
from common.objects.index import ConfigIndex
from common.opcodes.base import OpCode
from common.opcodes.group import OpGroupRename
from daemons.jobproc.context import UnitContext
from daemons.jobproc.testing import Mistake, UnitTrial
from daemons.jobproc.units.base import LogicalUnit
from daemons.jobproc.units.groups import GroupRenameUnit
from tests.support.configs import small_config


@attrs.frozen(kw_only=True)
class OpFind(OpCode):
    OP_ID: ClassVar[str] = "OP_FIND"
    LOCKS: ClassVar[LockRules] = {
        LockLevel.INSTANCE: shared("instance_name"),
        LockLevel.NODEGROUP: SOME_EXCLUSIVE,
        LockLevel.NODE: ALL_SHARED,
        LockLevel.NETWORK: SOME_SHARED,
    }

    instance_name: str = "web"


class FindUnit(LogicalUnit[OpFind]):
    OPCODE: ClassVar[type[OpCode]] = OpFind

    def expand_names(self, context: UnitContext) -> None:
        levels = (LockLevel.NODEGROUP, LockLevel.NODE, LockLevel.NODE_RES)
        self.lock_names = {level: ["b", "a"] for level in levels}

    def run(self, context: UnitContext) -> list[bool]:
        return [self.is_dynamic(level) for level in (LockLevel.NODEGROUP, LockLevel.NETWORK)]


def test_found_names_are_locked_in_the_declared_mode_and_no_level_besides(tmp_path: Path) -> None:
    trial = UnitTrial(tmp_path)

    trial.carry_out(FindUnit, {})

    assert trial.locks == {
        "cluster/BGL": "shared",
        "instance/web": "shared",
        "nodegroup/a": "exclusive",
        "nodegroup/b": "exclusive",
        "node/[lockset]": "shared",
    }


def test_only_a_level_of_which_nothing_was_found_waits_for_earlier_locks(tmp_path: Path) -> None:
    assert UnitTrial(tmp_path).carry_out(FindUnit, {}) == [False, True]


def test_found_names_replace_those_of_the_parameters() -> None:
    class WholeNameUnit(FindUnit):
        def expand_names(self, context: UnitContext) -> None:
            self.lock_names = {LockLevel.INSTANCE: [f"{self.op.instance_name}.example.com"]}

    unit = WholeNameUnit(OpFind())
    nothing = cast(UnitContext, None)
    unit.expand_names(nothing)

    assert [str(each.lock) for each in unit.declare_locks(LockLevel.INSTANCE, nothing)] == ["instance/web.example.com"]


def test_a_unit_that_wants_other_locks_at_its_second_call_is_a_mistake(tmp_path: Path) -> None:
    class DriftUnit(FindUnit):
        is_optimistic: ClassVar[bool] = True
        calls = 0

        def expand_names(self, context: UnitContext) -> None:
            self.calls += 1
            self.lock_names = {LockLevel.NODEGROUP: [f"g{self.calls}"]}

    with pytest.raises(Mistake, match="OP_FIND asks for other locks when it is expanded again"):
        UnitTrial(tmp_path).carry_out(DriftUnit, {})


def test_what_was_removed_while_its_lock_was_waited_for_is_not_changed() -> None:
    before = small_config()
    unit = GroupRenameUnit(OpGroupRename(group_name="default", new_name="north"))
    unit.expand_names(cast(UnitContext, SimpleNamespace(config=ConfigIndex(before))))

    after = ConfigIndex(attrs.evolve(before, nodegroups={}))
    with pytest.raises(PrerequisiteError, match="there is no node group 'default'"):
        unit.expand_names(cast(UnitContext, SimpleNamespace(config=after)))
