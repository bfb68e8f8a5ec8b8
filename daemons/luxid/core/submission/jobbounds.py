"""How large a job may be: bounds within which no job is in the way of others.

A job's file is written, and read again by luxid, at each step of each opcode; its locks are asked for in one
call. So the size of one job is a delay of all others.

Source: DESIGN section 6.
"""

from collections.abc import Mapping, Sequence

import attrs

from common.asciijson import ascii_json
from common.errors import InvalidRequest
from common.lockdecl import LockDeclaration
from common.opcodes.base import OpCode

# least number of bytes of JSON that a lock takes, with its mode
_LOCK_BYTES = 8


@attrs.frozen
class JobBounds:
    """Bounds of one job."""

    opcodes: int
    # size of its opcodes as JSON
    size_bytes: int
    # number of locks that one opcode names
    locks: int
    # number of jobs that one opcode waits for
    depends: int

    def check_input(self, ops: Sequence[Mapping[str, object]]) -> int:
        """Look at a job before its opcodes are read; its size in bytes.

        Raises: InvalidRequest: it has too many opcodes, or is too large; says the number and the bound.
        """
        if len(ops) > self.opcodes:
            raise _beyond(f"the job has {len(ops)} opcodes", self.opcodes, "max_job_opcodes")
        size = len(ascii_json(ops))
        if size > self.size_bytes:
            raise _beyond(f"the job has {size} bytes", self.size_bytes, "max_job_bytes")
        return size

    def check_opcode(self, op: OpCode, size_bytes: int) -> None:
        """Look at an opcode of a job of so many bytes.

        Raises: InvalidRequest: it names too many locks or jobs; says the number and the bound.
        """
        if op.depends is not None and len(op.depends) > self.depends:
            raise _beyond(f"it depends on {len(op.depends)} jobs", self.depends, "max_opcode_depends")
        if size_bytes > self.locks * _LOCK_BYTES and (count := _count_names(op.lock_declaration())) > self.locks:
            raise _beyond(
                f"it names {count} locks", self.locks, "max_locks", ", or lock the whole level: 'node/[lockset]'"
            )


def _count_names(declaration: LockDeclaration) -> int:
    return sum(len(entry.names) for entries in declaration.levels.values() for entry in entries)


def _beyond(what: str, bound: int, key: str, other: str = "") -> InvalidRequest:
    return InvalidRequest(f"{what}, of at most {bound}; split it{other}, or raise '{key}' in '[limits]'", limit=bound)
