"""OP_NOTIFY: delivers an event to a program or to an address; a failure is tried again like that of a command.

Source: DESIGN section 16; everyday.md section h.
"""

import time
from pathlib import Path
from typing import ClassVar

from common.commands.retryrules import TryFailure, TryFailureKind
from common.errors import CommandFailed, InvalidRequest, JobCanceled, PrerequisiteError
from common.featuresettings import NotifyRule
from common.notify import headers, read_secret
from common.opcodes.base import OpCode
from common.opcodes.command import OpNotify, OpRunCommand
from daemons.jobproc.commandends import TryFailed
from daemons.jobproc.context import UnitContext
from daemons.jobproc.units.base import LogicalUnit
from daemons.jobproc.units.command import RunCommandUnit
from daemons.jobproc.units.posting import NotDelivered, Post, send_within

# reply of a receiver that wants no more, ever
GONE = 410


class NotifyUnit(LogicalUnit[OpNotify]):
    """Delivers once; whoever gets it may have got it before, and knows that by its id."""

    OPCODE: ClassVar[type[OpCode]] = OpNotify

    def run(self, context: UnitContext) -> object:
        """Raises: TryFailed: it was not taken. PrerequisiteError: the rule is gone. CommandFailed: 410."""
        rule = context.settings.notify.rules.get(self.op.rule)
        if rule is None:
            raise PrerequisiteError(
                f"the settings have no rule '[notify.rules.{self.op.rule}]' any more", "wrong_state"
            )
        if rule.program:
            return self._run_program(rule, context)
        return self._post(rule, context)

    def _run_program(self, rule: NotifyRule, context: UnitContext) -> object:
        command = OpRunCommand(
            argv=rule.program,
            stdin_text=self.op.payload,
            timeout=rule.timeout_s,
            env={"GANTRY_EVENT_ID": self.op.message_id, "GANTRY_TRY": str(context.try_number)},
        )
        unit = RunCommandUnit(command)
        unit.check_prereq(context)
        return unit.run(context)

    def _post(self, rule: NotifyRule, context: UnitContext) -> object:
        body = self.op.payload.encode()
        try:
            keys = read_secret(Path(rule.secret_file).read_text()) if rule.secret_file else ()
            signed = headers(self.op.message_id, int(time.time()), body, keys)
            post = Post(rule.url, body, signed, rule.timeout_s, rule.ca_file, context.settings.notify.private)
            status = send_within(post, lambda fd: _wait(context, fd, rule.timeout_s))
        except (OSError, UnicodeDecodeError, InvalidRequest) as error:
            raise _failed(f"rule '{self.op.rule}' cannot be carried out: {error}") from error
        except NotDelivered as error:
            raise _failed(error.message) from error
        if 200 <= status < 300:
            return {"status": status, "tries": context.try_number}
        text = f"the receiver of rule '{self.op.rule}' replied with status {status}"
        if status == GONE:
            text = f"{text}: it wants no more, and the rule is off until luxid is restarted"
            raise CommandFailed(text, {"status": status, "gone": self.op.rule})
        raise _failed(f"{text}{'; redirects are not followed' if 300 <= status < 400 else ''}")


def _wait(context: UnitContext, fd: int, limit_s: float) -> bool:
    """Wait until a descriptor is readable. Raises: JobCanceled: the job is killed."""
    deadline = time.monotonic() + limit_s
    while (left_s := deadline - time.monotonic()) > 0:
        if context.signals.wait(left_s, fd):
            return True
        if context.killed:
            raise JobCanceled("the job was killed")
    return False


def _failed(text: str) -> TryFailed:
    return TryFailed(text, {"delivered": False}, TryFailure(TryFailureKind.EXIT), f"was not delivered: {text}")
