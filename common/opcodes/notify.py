"""OP_NOTIFY: tell somebody, by a program or over HTTP, of something that has become of a job.

luxid submits it by a rule of `[notify]` in the settings. The rule is looked up when the job runs: addresses, programs
and secrets are in no job file.

Source: DESIGN section 16; everyday.md section h.
"""

from typing import ClassVar

import attrs

from common.access import Role
from common.commands.retryrules import RetryPolicy
from common.opcodes.base import OpCode
from common.opcodes.types import Whole
from common.settingwords.notifysettings import GIVE_UP_S


@attrs.frozen(kw_only=True)
class OpNotify(OpCode):
    """Deliver one event; tried again after growing pauses, for a day."""

    SUBMIT_ROLE: ClassVar[Role] = Role.ADMIN

    # name of the rule
    rule: str
    # id by which receivers know a repeated delivery
    message_id: str
    # JSON, as it is signed and sent
    payload: str
    # seconds before each further try
    pauses: tuple[float, ...] = ()
    # whether it may be run again after a try of which nobody knows how far it came
    rerunnable: bool | None = True
    # job that the event is of
    job: Whole = 0

    def summary_value(self) -> str:
        """`17, operators`."""
        return f"{self.job}, {self.rule}"

    @property
    def retry_policy(self) -> RetryPolicy:
        """How many tries there are."""
        return RetryPolicy(retries=len(self.pauses))

    @property
    def stderr_apart(self) -> bool:
        return False

    def next_try_at(self, tries: int, began_at: float, ended_at: float) -> float | None:
        """The instant of the next try; None: it is given up.

        Args:
            tries: number of tries so far that count.
            began_at: instant of the first try.
        """
        last_at = began_at + GIVE_UP_S
        if tries > len(self.pauses) or ended_at >= last_at:
            return None
        return min(ended_at + self.pauses[tries - 1], last_at)
