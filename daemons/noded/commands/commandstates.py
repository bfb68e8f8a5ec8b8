"""What callers are told of the commands of this node; read from the records at each call.

The functions are for threads. Source: DESIGN section 13.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Final

from common.errors import DamagedFile
from common.system.log import get_log
from daemons.noded.commands.commandrecords import CommandRecords, KeyRecords, boot_id
from daemons.noded.commands.spooledoutput import ERRORS, OUTPUT, Spooled, read_spooled
from daemons.noded.core.commandphases import phase_of
from protocol.noded.commands import MOST_COMMANDS, MOST_OUTPUT, CommandNews, CommandPhase, CommandState, FollowCommand
from protocol.noded.contents import Content

_log: Final = get_log(__name__)


class CommandStates:
    """Raises, all: OSError, DamagedFile: the records cannot be read now."""

    def __init__(self, records: CommandRecords) -> None:
        self._records = records
        # keys with a damaged record, of which the log tells
        self._doubted: set[str] = set()

    @cached_property
    def boot(self) -> str:
        """The present life of the machine."""
        return boot_id()

    def state(self, key: str, found: KeyRecords, sizes: tuple[int, int] | None = None) -> CommandState:
        """Args: sizes: bytes of its two streams, if they are known."""
        phase = phase_of(found.records, self.boot)
        if phase in (CommandPhase.UNKNOWN, CommandPhase.VOID):
            return CommandState(key=key, phase=phase)
        output, errors = sizes or (self._spooled(key, OUTPUT).total, self._spooled(key, ERRORS).total)
        end, begun, start = found.end, found.begun, found.start
        return CommandState(
            key=key,
            phase=phase,
            begun_at=end.begun_at if end else begun.at if begun else 0.0,
            output_bytes=output,
            error_bytes=errors,
            output_base=start.output_base if start else 0,
            error_base=start.error_base if start else 0,
            outcome=end.outcome if end else None,
        )

    def news(self, call: FollowCommand) -> CommandNews:
        """The state, and what was written from the asked bytes on."""
        # the phase first: when it has ended, all of its output is there
        found = self._records.read(call.key)
        output = self._spooled(call.key, OUTPUT, call.output_from, MOST_OUTPUT)
        errors = self._spooled(call.key, ERRORS, call.error_from, MOST_OUTPUT)
        return CommandNews(
            state=self.state(call.key, found, (output.total, errors.total)),
            output_from=output.begin,
            output=Content(output.content),
            error_from=errors.begin,
            error=Content(errors.content),
        )

    def states_after(self, after: str) -> tuple[CommandState, ...]:
        """The states of the known keys after this one, at most `MOST_COMMANDS`. Raises: OSError.

        A key with a damaged record is told as running: nobody may take its locks, and the others are told as well.
        """
        states: list[CommandState] = []
        for key in self._records.all_keys():
            if key > after and len(states) < MOST_COMMANDS:
                state = self._state_or_doubt(key)
                if state.phase is not CommandPhase.UNKNOWN:
                    states.append(state)
        return tuple(states)

    def _state_or_doubt(self, key: str) -> CommandState:
        try:
            state = self.state(key, self._records.read(key))
        except DamagedFile as error:
            self.doubt(key, error)
            return CommandState(key=key, phase=CommandPhase.RUNNING)
        self._doubted.discard(key)
        return state

    def doubt(self, key: str, error: DamagedFile) -> None:
        """Tell in the log of a damaged record, once."""
        if key not in self._doubted:
            self._doubted.add(key)
            _log.error("command.unreadable", command=key, reason=error.message, effect="it counts as running")

    def running(self) -> Sequence[str]:
        """The keys whose commands may run."""
        found = ((key, self._records.read(key).records) for key in self._records.all_keys())
        return [key for key, records in found if phase_of(records, self.boot).may_run]

    def _spooled(self, key: str, name: str, offset: int = 0, limit: int = 0) -> Spooled:
        return read_spooled(self._records.output(key), name, offset, limit)
