"""Opcodes for tests of the engine, or of parts of a cluster.

Source: opcodes.md 4, 6.2, 7.
"""

from collections.abc import Mapping
from typing import ClassVar

import attrs

from common.access import Role
from common.lockdecl import NO_LOCKS, SOME_EXCLUSIVE, LockDeclaration, LockRules, Resolver, declare
from common.locks import Lock, LockLevel, LockMode, member_lock
from common.objects.kinds import DiskTemplate, Hypervisor
from common.opcodes.base import OpCode, only_declarable, seconds
from common.opcodes.types import (
    SECRET,
    AllocatorDirection,
    AllocatorMode,
    EvacuationMode,
    Json,
    JsonList,
    JsonObject,
    NicParams,
    NonEmpty,
    Number,
    Whole,
)


def _seconds(value: float) -> str:
    """A number in the form of Ganeti's luxid: `1.0`, `0.1`, `1.0e-3`, `2.5e7`."""
    if value == 0 or 0.1 <= abs(value) < 1e7:
        return repr(value)
    shortest = next(text for digits in range(1, 17) if float(text := f"{value:.{digits}e}") == value or digits == 16)
    mantissa, exponent = shortest.split("e")
    return f"{mantissa}e{int(exponent)}"


@attrs.frozen(kw_only=True)
class OpTestDelay(OpCode):
    """Sleep, on the master or on nodes, holding the locks of those nodes."""

    SUBMIT_ROLE: ClassVar[Role] = Role.SUBMIT

    # seconds
    duration: Number = attrs.field(validator=seconds())
    on_master: bool = True
    on_nodes: tuple[NonEmpty, ...] = ()
    on_node_uuids: tuple[NonEmpty, ...] | None = None
    # 0: once, without saying so in the log; n > 0: n times
    repeat: Whole = 0
    interruptible: bool = False
    no_locks: bool = True

    def summary_value(self) -> str:
        return _seconds(float(self.duration))

    def lock_declaration(self, resolve: Resolver | None = None) -> LockDeclaration:
        """The exact locks of the delay: the nodes as named, and none unless `no_locks` is false."""
        if self.no_locks:
            return NO_LOCKS
        nodes = self.on_node_uuids or self.on_nodes
        return declare({member_lock(LockLevel.NODE, name): LockMode.EXCLUSIVE for name in nodes})


@attrs.frozen(kw_only=True)
class OpTestDummy(OpCode):
    """Take locks, log, return or fail, submit jobs: everything that tests need."""

    SUBMIT_ROLE: ClassVar[Role] = Role.SUBMIT

    # result of the opcode
    result: Json = None
    # one text or a list of texts for the log
    messages: Json = None
    # true or a text: the opcode fails with it
    fail: Json = None
    # jobs (lists of opcode objects) to submit; their ids are in the result
    submit_jobs: Json = None
    locks: Mapping[Lock, LockMode] = attrs.field(factory=dict, validator=only_declarable)

    def lock_declaration(self, resolve: Resolver | None = None) -> LockDeclaration:
        return declare(self.locks)


@attrs.frozen(kw_only=True)
class OpTestAllocator(OpCode):
    """Call an instance allocator and show its reply."""

    SUMMARY: ClassVar[str | None] = "iallocator"
    TAKES_BIG_LOCK: ClassVar[bool] = True

    direction: AllocatorDirection
    mode: AllocatorMode
    name: NonEmpty
    nics: tuple[NicParams, ...] | None = None
    disks: JsonList | None = None
    hypervisor: Hypervisor | None = None
    iallocator: NonEmpty | None = None
    tags: tuple[NonEmpty, ...] = ()
    memory: Whole | None = None
    vcpus: Whole | None = None
    os: NonEmpty | None = None
    disk_template: DiskTemplate | None = None
    instances: tuple[NonEmpty, ...] | None = None
    evac_mode: EvacuationMode | None = None
    target_groups: tuple[NonEmpty, ...] | None = None
    spindle_use: Whole = 1
    count: Whole = 1
    group_name: NonEmpty | None = None


@attrs.frozen(kw_only=True)
class OpTestJqueue(OpCode):
    """Report each step of the job's life to a client, by sockets."""

    LOCKS: ClassVar[LockRules] = {LockLevel.NODE: SOME_EXCLUSIVE}

    notify_waitlock: bool = False
    notify_exec: bool = False
    log_messages: tuple[str, ...] = ()
    fail: bool = False


@attrs.frozen(kw_only=True)
class OpTestOsParams(OpCode):
    """Log the secret parameters; fail if there are none."""

    osparams_secret: JsonObject | None = attrs.field(default=None, repr=False, metadata=SECRET)
