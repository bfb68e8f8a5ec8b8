"""The kit for authors of opcodes finds what would go wrong in a cluster, and lets pass what would not.

Source: `daemons/jobproc/testing.py`.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import attrs
import pytest

from common.errors import InvalidRequest, JobCanceled, PrerequisiteError, RemoteError
from common.lockdecl import LevelDeclaration, LockDeclaration, Resolver, Scope, declare
from common.locks import Lock, LockLevel, LockMode, LockRequest, group_lock, member_lock, read_lock
from common.opcodes.base import OpCode
from common.opcodes.test import OpTestDelay
from common.opcodes.types import SECRET, JsonObject, NonEmpty
from daemons.jobproc.context import UnitContext
from daemons.jobproc.testing import FakeContext, Mistake, UnitTrial
from daemons.jobproc.units.base import LogicalUnit
from daemons.jobproc.units.test import TestDelayUnit
from tests.support.configs import small_config

WEB1, WEB2 = member_lock(LockLevel.NODE, "web1"), member_lock(LockLevel.NODE, "web2")
EXCLUSIVE, SHARED = LockMode.EXCLUSIVE, LockMode.SHARED


@attrs.frozen(kw_only=True)
class OpTry(OpCode):
    OP_ID: ClassVar[str] = "OP_TRY"
    SUMMARY: ClassVar[str | None] = "do"

    do: NonEmpty = "nothing"
    password: JsonObject | None = attrs.field(default=None, repr=False, metadata=SECRET)

    def lock_declaration(self, resolve: Resolver | None = None) -> LockDeclaration:
        return declare({WEB1: EXCLUSIVE})


class TryUnit(LogicalUnit[OpTry]):
    OPCODE: ClassVar[type[OpCode]] = OpTry
    asks: ClassVar[Sequence[LockRequest] | None] = None

    def declare_locks(self, level: LockLevel, context: UnitContext) -> Sequence[LockRequest]:
        if self.asks is None or level is not LockLevel.NODE:
            return super().declare_locks(level, context)
        return self.asks

    def check_prereq(self, context: UnitContext) -> None:
        if self.op.do == "refuse":
            raise PrerequisiteError("it is not to be")

    def run(self, context: UnitContext) -> Any:
        return getattr(self, f"_{self.op.do}")(context)

    def _nothing(self, context: UnitContext) -> None:
        pass

    def _tell(self, context: UnitContext) -> None:
        context.feedback("begun")
        context.progress(0.5, "half")
        context.log("measure", {"rpm": 7})

    def _leak(self, context: UnitContext) -> None:
        context.feedback(f"the password is {context.secrets['word']}")

    def _return_secret(self, context: UnitContext) -> Any:
        return dict(context.secrets)

    def _return_object(self, context: UnitContext) -> Any:
        return object()

    def _read_secret(self, context: UnitContext) -> int:
        return len(str(context.secrets["word"])) + len(str((self.op.password or {})["word"]))

    def _give_up(self, context: UnitContext) -> None:
        context.locks.release([WEB1])
        context.locks.release([WEB1])

    def _wait(self, context: UnitContext) -> bool:
        return context.wait(1e6)

    def _submit(self, context: UnitContext) -> Any:
        return context.submit_jobs([({"OP_ID": "OP_TEST_DELAY", "duration": 1},), ({"OP_ID": "OP_TEST_DELAY"},)])

    def _offline(self, context: UnitContext) -> None:
        node = context.config.nodes[0]
        context.config.update(attrs.evolve(node, offline=True))
        assert context.config.nodes[0].offline

    def _stale(self, context: UnitContext) -> None:
        node = context.config.nodes[0]
        context.config.update(attrs.evolve(node, offline=True))
        context.config.update(attrs.evolve(node, offline=False))


def unit(*asks: LockRequest, declares: LockDeclaration | None = None) -> type[TryUnit]:
    """A unit that asks for these locks of nodes, of an opcode that declares those."""

    class Asking(TryUnit):
        pass

    Asking.asks = asks
    if declares is not None:
        declared = declares

        @attrs.frozen(kw_only=True)
        class OpDeclaring(OpTry):
            def lock_declaration(self, resolve: Resolver | None = None) -> LockDeclaration:
                return declared

        Asking.OPCODE = OpDeclaring
    return Asking


def on_nodes(mode: LockMode, scope: Scope, *names: str) -> LockDeclaration:
    return LockDeclaration(levels={LockLevel.NODE: (LevelDeclaration(mode, scope, frozenset(names)),)})


def test_what_a_unit_tells_is_recorded(tmp_path: Path) -> None:
    trial = UnitTrial(tmp_path)

    assert trial.carry_out(TryUnit, {"do": "tell"}) is None

    assert trial.feedback == ["begun", "50 %: half"]
    assert trial.log[-1] == ("measure", {"rpm": 7})
    assert trial.locks == {"cluster/BGL": "shared", "node/web1": "exclusive"}


@pytest.mark.parametrize(
    ("asked", "declared"),
    [
        (LockRequest(WEB1, SHARED), on_nodes(EXCLUSIVE, Scope.UNKNOWN)),
        (LockRequest(WEB1, EXCLUSIVE), on_nodes(EXCLUSIVE, Scope.UNKNOWN)),
        (LockRequest(group_lock(LockLevel.NODE), SHARED), on_nodes(SHARED, Scope.ALL)),
    ],
)
def test_locks_that_the_opcode_tells_of_may_be_asked_for(
    tmp_path: Path, asked: LockRequest, declared: LockDeclaration
) -> None:
    trial = UnitTrial(tmp_path)

    trial.carry_out(unit(asked, declares=declared), {})

    assert trial.asked[asked.lock] is asked.mode


@pytest.mark.parametrize(
    ("asked", "complaint"),
    [
        (
            [LockRequest(WEB1, EXCLUSIVE), LockRequest(member_lock(LockLevel.NODE, "web2"), SHARED)],
            "asks for 'node/web2'",
        ),
        (
            [LockRequest(group_lock(LockLevel.NODE), EXCLUSIVE)],
            r"asks for 'node/\[lockset\]' exclusive, which its lock_d",
        ),
        ([LockRequest(member_lock(LockLevel.INSTANCE, "i"), SHARED)], "'instance/i', of another level"),
        ([], "declares 'node/web1', which its unit does not ask for"),
    ],
)
def test_other_locks_than_the_opcode_declares_are_a_mistake(
    tmp_path: Path, asked: list[LockRequest], complaint: str
) -> None:
    with pytest.raises(Mistake, match=complaint):
        UnitTrial(tmp_path).carry_out(unit(*asked), {})


def test_a_stronger_mode_than_declared_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(Mistake, match="asks for 'node/web1' exclusive"):
        UnitTrial(tmp_path).carry_out(unit(LockRequest(WEB1, EXCLUSIVE), declares=on_nodes(SHARED, Scope.UNKNOWN)), {})


def test_a_lock_that_is_not_held_cannot_be_given_up(tmp_path: Path) -> None:
    with pytest.raises(Mistake, match="'node/web1' is given up, and is not held"):
        UnitTrial(tmp_path).carry_out(TryUnit, {"do": "give_up"})


def test_secrets_reach_the_unit_and_nothing_else(tmp_path: Path) -> None:
    assert UnitTrial(tmp_path).carry_out(TryUnit, {"do": "read_secret", "password": {"word": "sesame"}}) == 12


@pytest.mark.parametrize(("do", "place"), [("leak", "the job's log"), ("return_secret", "the result")])
def test_a_secret_that_would_reach_a_file_is_a_mistake(tmp_path: Path, do: str, place: str) -> None:
    with pytest.raises(Mistake, match=f"secret parameter 'word' is in {place}"):
        UnitTrial(tmp_path).carry_out(TryUnit, {"do": do, "password": {"word": "sesame"}})


def test_a_secret_that_the_opcode_shows_is_a_mistake(tmp_path: Path) -> None:
    @attrs.frozen(kw_only=True)
    class OpShowing(OpTry):
        password: JsonObject | None = attrs.field(default=None, metadata=SECRET)

    class ShowingUnit(TryUnit):
        OPCODE = OpShowing

    with pytest.raises(Mistake, match="can be read in its repr"):
        UnitTrial(tmp_path).carry_out(ShowingUnit, {"password": {"word": "sesame"}})


def _louder(text: str) -> str:
    return text + "!"


def test_an_opcode_that_its_job_file_does_not_hold_is_a_mistake(tmp_path: Path) -> None:
    @attrs.frozen(kw_only=True)
    class OpForgetting(OpTry):
        # longer at each reading
        spelled: NonEmpty = attrs.field(default="x", converter=_louder)

    class ForgettingUnit(TryUnit):
        OPCODE = OpForgetting

    with pytest.raises(Mistake, match="does not come back from its job file"):
        UnitTrial(tmp_path).carry_out(ForgettingUnit, {})


def test_a_result_that_is_not_json_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(Mistake, match="the result is not JSON"):
        UnitTrial(tmp_path).carry_out(TryUnit, {"do": "return_object"})


def test_wrong_parameters_are_refused_as_by_luxid(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="unknown key 'dot'"):
        UnitTrial(tmp_path).carry_out(TryUnit, {"dot": "x"})


def test_prerequisites_are_checked_and_a_dry_run_ends_there(tmp_path: Path) -> None:
    with pytest.raises(PrerequisiteError):
        UnitTrial(tmp_path).carry_out(TryUnit, {"do": "refuse"})

    trial = UnitTrial(tmp_path)
    assert trial.carry_out(TryUnit, {"do": "tell", "dry_run": True}) is None
    assert trial.log == []


def test_no_time_passes_while_a_unit_waits(tmp_path: Path) -> None:
    trial = UnitTrial(tmp_path)

    trial.carry_out(TestDelayUnit, {"duration": 5000, "repeat": 2})

    assert (trial.waited_s, trial.feedback) == (10_000, ["delay 1 of 2", "delay 2 of 2"])
    assert TestDelayUnit.OPCODE is OpTestDelay


def test_a_job_may_be_cancelled_or_killed_in_the_middle(tmp_path: Path) -> None:
    cancelled = UnitTrial(tmp_path, cancel_when=lambda trial: trial.waited_s >= 5000)
    killed = UnitTrial(tmp_path, kill_when=lambda trial: trial.waited_s >= 5000)

    assert cancelled.carry_out(TryUnit, {"do": "wait"}) is True
    with pytest.raises(JobCanceled):
        killed.carry_out(TryUnit, {"do": "wait"})

    assert 5000 <= cancelled.waited_s < 10_000
    assert 5000 <= killed.waited_s < 10_000


def test_jobs_that_a_unit_submits_are_read_as_luxid_would(tmp_path: Path) -> None:
    trial = UnitTrial(tmp_path)

    taken, refused = trial.carry_out(TryUnit, {"do": "submit"})

    assert taken == [True, 2]
    assert refused[0] is False
    assert "'duration' is missing" in refused[1]
    assert [op["comment"] for job in trial.submitted for op in job] == ["Submitted by OP_TRY"]


def test_a_change_of_the_configuration_under_its_lock_is_made_and_seen(tmp_path: Path) -> None:
    config = small_config()
    (node,) = config.nodes.values()
    request = LockRequest(member_lock(LockLevel.NODE, node.uuid), EXCLUSIVE)
    trial = UnitTrial(tmp_path, config=config)

    trial.carry_out(unit(request, declares=on_nodes(EXCLUSIVE, Scope.UNKNOWN)), {"do": "offline"})

    assert trial.config_changes == ["updateNode"]
    (after,) = trial.config.nodes.values()
    assert (after.offline, after.serial_no) == (True, node.serial_no + 1)
    assert not node.offline


def test_a_change_of_the_configuration_without_its_lock_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(
        Mistake, match="is used and needs to be held exclusive; held are: 'cluster/BGL' shared, 'node/w"
    ):
        UnitTrial(tmp_path, config=small_config()).carry_out(TryUnit, {"do": "offline"})


def test_an_object_that_was_changed_since_it_was_read_is_not_replaced(tmp_path: Path) -> None:
    request = LockRequest(group_lock(LockLevel.NODE), EXCLUSIVE)
    trial = UnitTrial(tmp_path, config=small_config())

    with pytest.raises(RemoteError, match="changed since it was read"):
        trial.carry_out(unit(request, declares=on_nodes(EXCLUSIVE, Scope.ALL)), {"do": "stale"})


def test_a_unit_without_a_configuration_may_not_look_at_it(tmp_path: Path) -> None:
    with pytest.raises(Mistake, match="give the trial one"):
        UnitTrial(tmp_path).carry_out(TryUnit, {"do": "offline"})


@pytest.mark.parametrize(
    ("held", "lock", "mode", "may"),
    [
        ({"node/web1": EXCLUSIVE}, WEB1, EXCLUSIVE, True),
        ({"node/web1": SHARED}, WEB1, SHARED, True),
        ({"node/web1": SHARED}, WEB1, EXCLUSIVE, False),
        ({"node/[lockset]": EXCLUSIVE}, WEB1, EXCLUSIVE, True),
        ({"instance/[lockset]": EXCLUSIVE}, WEB1, SHARED, False),
        ({"cluster/BGL": SHARED}, WEB1, SHARED, False),
        ({"cluster/BGL": EXCLUSIVE}, WEB1, EXCLUSIVE, True),
        ({}, WEB1, SHARED, False),
    ],
)
def test_what_is_used_must_be_held_itself_or_by_what_stands_for_it(
    tmp_path: Path, held: Mapping[str, LockMode], lock: Lock, mode: LockMode, may: bool
) -> None:
    context = FakeContext(UnitTrial(tmp_path), {}, {})
    context.take([LockRequest(read_lock(name), each) for name, each in held.items()])

    if may:
        context.uses(lock, mode)
    else:
        with pytest.raises(Mistake, match="is used"):
            context.uses(lock, mode)
