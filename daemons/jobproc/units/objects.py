"""Units on one object of the configuration: it is found by its name, locked, and then changed, renamed or removed.

Theory. A unit is a declaration: the opcode that it carries out (whose `LOCKS` tell level and mode), the kind of its
object, and what it checks and changes. `expand_names` finds the object before its lock is held. As these units are
optimistic, it is called again with the locks held: what `target` is then, nobody else can change or remove any more,
so `check_prereq` need not ask whether it is still there.

Source: opcodes.md 4; DESIGN section 7.
"""

import uuid as uuids
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final, Generic, TypeVar

import attrs

from common.errors import PrerequisiteError, wrong_input
from common.locks import LockLevel
from common.objects.config import AnyInstance, Network, Node, NodeGroup
from common.objects.index import ConfigIndex, find_named
from common.opcodes.base import OpCode
from common.opcodes.group import OpGroupRename
from common.opcodes.network import OpNetworkRename
from daemons.jobproc.configuration import UnitConfig
from daemons.jobproc.context import UnitContext
from daemons.jobproc.units.base import LogicalUnit

O_co = TypeVar("O_co", bound=OpCode, covariant=True)
RenameOp_co = TypeVar("RenameOp_co", bound=OpGroupRename | OpNetworkRename, covariant=True)
E = TypeVar("E", bound=Node | NodeGroup | Network | AnyInstance)


def _nothing_to_refuse(config: ConfigIndex, name: str) -> None:
    pass


def _no_change(config: UnitConfig, objects: Sequence[object] = (), *, removed: Sequence[object] = ()) -> None:
    raise NotImplementedError


@attrs.frozen
class ObjectKind(Generic[E]):
    """A kind of objects that opcodes name."""

    # word for it in texts
    title: str
    level: LockLevel
    # parameter of its opcodes that names one
    parameter: str
    objects: Callable[[ConfigIndex], Sequence[E]]
    # whether names are those of hosts, of which a unique short form is enough; others may be named by uuid as well
    is_host: bool = False
    # function that adds, replaces and removes some in one change
    change: Callable[..., None] = _no_change
    # function that raises PrerequisiteError: a new object cannot have the name
    check_new_name: Callable[[ConfigIndex, str], None] = _nothing_to_refuse

    def named(self, config: ConfigIndex, name: str) -> E:
        """Raises: PrerequisiteError: there is no such object, or several may be meant."""
        objects = self.objects(config)
        by_uuid = (each for each in objects if each.uuid == name and not self.is_host)
        return next(by_uuid, None) or find_named(objects, [name], self.title, is_host=self.is_host)[0]

    def lock_name(self, found: E) -> str:
        """The name of its lock: instances are locked by name, all others by uuid."""
        return found.name or "" if self.level is LockLevel.INSTANCE else found.uuid


# of whatever objects
AnyKind = ObjectKind[Any]


def _check_group_name(config: ConfigIndex, name: str) -> None:
    if name != name.strip() or not name.isprintable():
        raise wrong_input(
            f"a node group cannot be called {name!r:.80}: blanks at an end and control characters are refused"
        )
    for group in config.groups:
        if name in (group.name, group.uuid):
            raise PrerequisiteError(f"there is a node group '{name}' already (uuid {group.uuid})", "already_exists")


def _check_network_name(config: ConfigIndex, name: str) -> None:
    for other in config.networks:
        if name in (other.name, other.uuid):
            raise PrerequisiteError(f"there is a network '{name}' already; its uuid is {other.uuid}", "already_exists")


NODE: Final = ObjectKind[Node]("node", LockLevel.NODE, "node_name", lambda config: config.nodes, is_host=True)
INSTANCE: Final = ObjectKind[AnyInstance](
    "instance", LockLevel.INSTANCE, "instance_name", lambda config: config.instances, is_host=True
)
GROUP: Final = ObjectKind[NodeGroup](
    "node group",
    LockLevel.NODEGROUP,
    "group_name",
    lambda config: config.groups,
    change=UnitConfig.change_groups,
    check_new_name=_check_group_name,
)
NETWORK: Final = ObjectKind[Network](
    "network",
    LockLevel.NETWORK,
    "network_name",
    lambda config: config.networks,
    change=UnitConfig.change_networks,
    check_new_name=_check_network_name,
)


class ObjectUnit(LogicalUnit[O_co], Generic[O_co, E]):
    """The common base: finds the object that the opcode names, and locks it."""

    KIND: ClassVar[AnyKind]
    is_optimistic: ClassVar[bool] = True

    target: E

    @property
    def target_name(self) -> str:
        """The name of the object, as the opcode has it."""
        return str(getattr(self.op, self.KIND.parameter))

    def find(self, config: ConfigIndex) -> E:
        """The object that is named. Raises: PrerequisiteError: there is none, or several may be meant."""
        found: E = self.KIND.named(config, self.target_name)
        return found

    def expand_names(self, context: UnitContext) -> None:
        """Find the object; a subclass adds to `lock_names` what else is to be locked."""
        self.target = self.find(context.config)
        self.lock_names = {self.KIND.level: [self.KIND.lock_name(self.target)]}


class ChangeUnit(ObjectUnit[O_co, E]):
    """Writes the object as `changed` gives it; all of it is checked before."""

    # parameters of which one must be given; empty: all may be left out
    VALUES: ClassVar[Sequence[str]] = ()
    # what to do, if none is
    ADVICE: ClassVar[str] = "name at least one parameter"

    after: E

    def expand_names(self, context: UnitContext) -> None:
        if self.VALUES and not any(map(self.is_given, self.VALUES)):
            raise wrong_input(f"there is nothing to change; {self.ADVICE}")
        super().expand_names(context)

    def is_given(self, parameter: str) -> bool:
        return getattr(self.op, parameter) is not None

    def check_prereq(self, context: UnitContext) -> None:
        # lines for the job's log, when the change is made
        self.notes: list[str] = []
        self.after = self.changed(context)

    def changed(self, context: UnitContext) -> E:
        """The object as it is to be. Raises: PrerequisiteError: the cluster or a value does not permit that."""
        raise NotImplementedError

    def run(self, context: UnitContext) -> object:
        for note in self.notes:
            context.feedback(note)
        self.write(context)
        return self.result()

    def write(self, context: UnitContext) -> None:
        self.KIND.change(context.config, [self.after])

    def result(self) -> object:
        return None


class AddUnit(ChangeUnit[O_co, E]):
    """Makes an object, with `uuid` and the serial number 0; wconfd judges whether its name is still free.

    Its lock is its own, as nobody knows its uuid yet.
    """

    is_optimistic: ClassVar[bool] = False

    def expand_names(self, context: UnitContext) -> None:
        self.uuid = str(uuids.uuid4())
        self.lock_names = {self.KIND.level: [self.uuid]}

    def check_prereq(self, context: UnitContext) -> None:
        self.KIND.check_new_name(context.config, self.target_name)
        super().check_prereq(context)


class RenameUnit(ChangeUnit[RenameOp_co, E]):
    """Gives the object the name `new_name`, and returns that."""

    def changed(self, context: UnitContext) -> E:
        self.KIND.check_new_name(context.config, self.op.new_name)
        return attrs.evolve(self.target, name=self.op.new_name)

    def result(self) -> str:
        return self.op.new_name


class RemoveUnit(ObjectUnit[O_co, E]):
    """Removes the object; a subclass says in `check_prereq` what must not use it."""

    def run(self, context: UnitContext) -> None:
        self.KIND.change(context.config, removed=[self.target.uuid])
