"""Opcodes that exist to try the engine: a delay, and a dummy that does what it is told."""

from collections.abc import Mapping
from typing import Any, ClassVar

import attrs

from common.lockdecl import LockDeclaration, declare
from common.locks import Lock, LockLevel, LockMode, member_lock
from common.opcodes.base import OpCode, at_least


@attrs.frozen(kw_only=True)
class OpTestDelay(OpCode):
    """Sleep, on the master or on nodes, holding the locks of those nodes."""

    OP_ID: ClassVar[str] = "OP_TEST_DELAY"

    # seconds
    duration: float = attrs.field(validator=at_least(0))
    on_master: bool = True
    on_nodes: tuple[str, ...] = ()
    on_node_uuids: tuple[str, ...] | None = None
    # 0: once, without saying so in the log; n > 0: n times
    repeat: int = attrs.field(default=0, validator=at_least(0))
    interruptible: bool = False
    no_locks: bool = True

    def summary_value(self) -> str:
        return str(float(self.duration))

    def lock_declaration(self) -> LockDeclaration:
        if self.no_locks:
            return LockDeclaration()
        nodes = self.on_node_uuids or self.on_nodes
        return declare({member_lock(LockLevel.NODE, name): LockMode.EXCLUSIVE for name in nodes})


@attrs.frozen(kw_only=True)
class OpTestDummy(OpCode):
    """Take locks, log, return or fail, submit jobs: whatever a test needs."""

    OP_ID: ClassVar[str] = "OP_TEST_DUMMY"

    # returned as the opcode's result
    result: Any = None
    # one text, or a list of texts: written to the log
    messages: Any = None
    # true or a text: fail with it
    fail: Any = None
    # jobs (lists of opcode objects) to submit; their ids are in the result
    submit_jobs: Any = None
    locks: Mapping[Lock, LockMode] = attrs.field(factory=dict)

    def lock_declaration(self) -> LockDeclaration:
        return declare(self.locks)
