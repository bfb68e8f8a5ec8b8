"""OP_RUN_COMMAND: any program as a job."""

import shlex
from collections.abc import Mapping
from typing import Any, ClassVar

import attrs

from common.access import Role
from common.errors import InvalidRequest
from common.lockdecl import LockDeclaration, Resolver, declare
from common.locks import Lock, LockMode
from common.opcodes.base import OpCode, at_least, only_declarable


def _some(_: object, attribute: "attrs.Attribute[Any]", value: tuple[str, ...]) -> None:
    if not value or not value[0]:
        raise InvalidRequest(f"{attribute.name} must name a program")
    if any("\0" in word for word in value):
        raise InvalidRequest(f"{attribute.name} must not contain a zero byte")


def _shortened(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."


@attrs.frozen(kw_only=True)
class OpRunCommand(OpCode):
    """Run a program under locks; it succeeds if the exit code is one of those expected."""

    SUBMIT_ROLE: ClassVar[Role] = Role.SUBMIT

    # the program and its arguments; no shell, unless `shell` is set: then the words are joined by blanks
    argv: tuple[str, ...] = attrs.field(validator=_some)
    shell: bool = False
    # added to the defined environment (`daemons.jobproc.surroundings`)
    env: Mapping[str, str] = attrs.field(factory=dict)
    # absolute; default "/"
    cwd: str | None = None
    # seconds; then TERM to the whole group, and KILL after a grace time
    timeout: float | None = attrs.field(default=None, validator=at_least(0))
    # run as this user: needs a daemon that runs as root
    user: str | None = None
    # what it reads: a text, or a file's content; both unset: nothing
    stdin_text: str | None = None
    # absolute; opened with the rights of the command's user when it starts
    stdin_path: str | None = None
    # standard error is kept by itself, and not joined with the output
    stderr_apart: bool | None = None
    exit_codes: tuple[int, ...] = (0,)
    locks: Mapping[Lock, LockMode] = attrs.field(factory=dict, validator=only_declarable)
    # what the program leaves running is not ended with it
    detach: bool = False
    # it is not ended either, and the locks are kept until the last of it has ended
    keep_locks: bool = False

    def __attrs_post_init__(self) -> None:
        if self.stdin_text is not None and self.stdin_path is not None:
            raise InvalidRequest("a command reads either stdin_text or stdin_path; give one of them")

    def summary_value(self) -> str:
        """The comment, if there is one: whoever gave the work a name wants to see it; else the command."""
        if self.comment:
            return _shortened(self.comment)
        text = " ".join(self.argv) if self.shell else shlex.join(self.argv)
        return _shortened(text)

    def lock_declaration(self, resolve: Resolver | None = None) -> LockDeclaration:
        return declare(self.locks)
