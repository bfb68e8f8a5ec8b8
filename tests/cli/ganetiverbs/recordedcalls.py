"""The recorded calls of a real Ganeti's programs, and how each has ended."""

import json
import shlex
from collections.abc import Sequence
from typing import Final

import attrs

from tests.cli.command import Ended
from tests.support.configs import RECORDED

SCRIPTS: Final = RECORDED / "verbs"
# line of a script at which the configuration was kept
CONFIGURATION: Final = "= config.data"


@attrs.frozen
class RecordedCall:
    # as it is written in the script
    line: str
    stdin: str
    ended: Ended

    @property
    def name(self) -> str:
        """Its line, and what it got on standard input."""
        return f"{self.line} < {self.stdin!r}" if self.stdin else self.line

    @property
    def program(self) -> str:
        return shlex.split(self.line)[0]

    @property
    def words(self) -> Sequence[str]:
        return shlex.split(self.line)[1:]


def recorded_calls(script: str) -> Sequence[RecordedCall]:
    """The calls of a script, in their order."""
    rows = map(json.loads, (SCRIPTS / script / "ends.jsonl").read_text().splitlines())
    return [RecordedCall(row["call"], row["stdin"], Ended(row["code"], row["out"], row["err"])) for row in rows]
