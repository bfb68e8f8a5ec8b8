"""Mistakes of an opcode or a unit that would otherwise show only in a cluster."""

from collections.abc import Sequence

import orjson

from common.lockdecl import LevelDeclaration, LockDeclaration, Scope, requests_for
from common.locks import LockLevel, LockRequest
from common.opcodes.base import OpCode, read_opcode, summary, with_secrets, write_opcode


class Mistake(AssertionError):
    """The unit or its opcode would fail in a cluster."""


def from_job_file(op: OpCode) -> OpCode:
    """Return the opcode as the job process reads it. Raises: Mistake: it differs, or the file shows a secret."""
    text = orjson.dumps(write_opcode(op)).decode()
    secrets = op.secret_parameters() or {}
    for place, shown in (("the job file", text), ("its summary", summary(op)), ("its repr", repr(op))):
        for name, secret in secrets.items():
            if isinstance(secret, str) and secret and secret in shown:
                raise Mistake(f"the secret '{name}' of {op.OP_ID} can be read in {place}; keep it with metadata=SECRET")
    read = read_opcode(type(op), orjson.loads(text))
    kept = with_secrets(read, secrets) if secrets else read
    if kept != op:
        raise Mistake(f"{op.OP_ID} does not come back from its job file: {op} became {kept}")
    return kept


def check_requests(op: OpCode, declared: LockDeclaration, level: LockLevel, wanted: Sequence[LockRequest]) -> None:
    """Raises: Mistake: the unit requests other locks of a level than the opcode declares."""
    entries = declared.levels.get(level, ())
    for request in wanted:
        name, mode = str(request.lock), request.mode.value if request.mode else "released"
        if request.lock.level is not level:
            raise Mistake(f"{op.OP_ID}: declare_locks of level {level.value} asks for '{name}', of another level")
        if not any(_tells_of(entry, request) for entry in entries):
            raise Mistake(f"{op.OP_ID} asks for '{name}' {mode}, which its lock_declaration does not tell of")
    for missing in set(requests_for(level, entries)) - set(wanted):
        raise Mistake(f"{op.OP_ID} declares '{missing.lock}', which its unit does not ask for")


def _tells_of(entry: LevelDeclaration, request: LockRequest) -> bool:
    if not entry.mode.covers(request.mode):
        return False
    return entry.scope is not Scope.NAMED or (not request.lock.is_group and request.lock.name in entry.names)


def check_result(result: object) -> None:
    """Raises: Mistake: the result is not JSON."""
    try:
        orjson.dumps(result)
    except TypeError as error:
        raise Mistake(f"the result is not JSON: {error}") from error
