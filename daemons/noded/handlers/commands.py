"""Commands that masters run on this node.

Source: DESIGN section 13.
"""

from common.errors import InvalidRequest
from daemons.noded.commands.nodecommands import NodeCommands
from protocol.noded.commands import (
    MOST_COMMANDS,
    CommandNews,
    CommandState,
    FollowCommand,
    ForgetCommands,
    ListCommands,
    StartCommand,
    StopCommand,
)
from protocol.noded.names import is_command_key


class CommandHandlers:
    """Raises, all: InvalidRequest: no key, or a number out of range. OSError, DamagedFile: records cannot be read."""

    def __init__(self, commands: NodeCommands) -> None:
        self._commands = commands

    async def start(self, call: StartCommand) -> CommandState:
        """Raises: Conflict: the key is known with another command. Unavailable: it was not started now."""
        _check_key(call.key)
        if not call.spec.argv:
            raise InvalidRequest("a command needs at least the name of its program")
        _check_counts(output_base=call.output_base, error_base=call.error_base)
        return await self._commands.start(call)

    async def follow(self, call: FollowCommand) -> CommandNews:
        _check_key(call.key)
        _check_counts(output_from=call.output_from, error_from=call.error_from, wait=call.wait)
        return await self._commands.follow(call)

    async def stop(self, call: StopCommand) -> CommandState:
        _check_key(call.key)
        return await self._commands.stop(call.key)

    async def forget(self, call: ForgetCommands) -> None:
        if len(call.keys) > MOST_COMMANDS:
            raise InvalidRequest(f"{call.METHOD} takes at most {MOST_COMMANDS} keys, got {len(call.keys)}")
        for key in call.keys:
            _check_key(key)
        await self._commands.forget(call.keys)

    async def states(self, call: ListCommands) -> tuple[CommandState, ...]:
        return await self._commands.states(call.after)


def _check_key(key: str) -> None:
    if not is_command_key(key):
        raise InvalidRequest(f"{key[:80]!r} is no key of a command; it is JOB.OPCODE.TRY, such as 17.0.1")


def _check_counts(**counts: float) -> None:
    for name, value in counts.items():
        if not value >= 0:
            raise InvalidRequest(f"'{name}' is at least 0, got {value:g}")
