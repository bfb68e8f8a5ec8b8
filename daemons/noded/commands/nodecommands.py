"""The commands of this node: started, followed, stopped, forgotten, whatever has died meanwhile.

Theory. Nothing of a command is kept in memory: each call reads the records of its key, and
`daemons.noded.core.commandphases` decides. Calls that change a key wait for each other. So after a restart of this
daemon nothing has to be found again; whoever asks for a command reads what it has become.

Source: DESIGN section 13.
"""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Final, assert_never

import attrs
import trio

from common.durable.atomicfile import write_files
from common.durable.durably import durably
from common.durable.groupcommit import GroupCommit
from common.errors import Conflict, DamagedFile, Unavailable
from common.settings import Settings
from common.system.inthread import in_thread
from common.system.log import get_log
from common.system.retrypauses import retry_pauses
from daemons.noded.commands.commandbells import CommandBells
from daemons.noded.commands.commandrecords import (
    LIVE,
    START,
    VOID,
    CommandRecords,
    StartRecord,
    digest_of_command,
)
from daemons.noded.commands.commandstates import CommandStates
from daemons.noded.commands.launching import Launcher
from daemons.noded.commands.runnermessages import RunnerOrder, Verdict
from daemons.noded.commands.signalling import signal_runner
from daemons.noded.commands.sweeping import DAY_S, forget_ended, sweep_key, sweep_leftovers
from daemons.noded.core.commandphases import Start, Stop, on_start, on_stop
from protocol.noded.commands import (
    LONGEST_WAIT_S,
    CommandNews,
    CommandPhase,
    CommandState,
    FollowCommand,
    StartCommand,
)

# seconds between two tries to make void a key whose runner, of another noded, is about to begin
_LOOK_AGAIN_S: Final = 0.02
# seconds that a start takes at most before the caller is told to try again
_START_S: Final = 45.0
# seconds that output alone is held back for more of it, and bytes from which it is not
_GATHER_S: Final = 0.03
_MUCH: Final = 256 * 2**10
_SWEEP_S: Final = 3600.0
_log: Final = get_log(__name__)


class NodeCommands:
    """All commands of this node; at work while `run` is."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._records = CommandRecords(settings.paths.node_commands)
        self._launcher_socket = settings.paths.launcher_socket
        self._writes = GroupCommit()
        self._turns: dict[str, _Turn] = {}
        self._states = CommandStates(self._records)
        self._has_folders = self._is_leaving = False
        # while `run` is at work
        self._launcher: Launcher | None = None
        self._bells: CommandBells | None = None

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Work for the callers; for `nursery.start`. Cancellation: the commands run on."""
        async with trio.open_nursery() as nursery:
            await nursery.start(self._writes.run)
            self._launcher = Launcher(self._settings, nursery)
            self._bells = CommandBells(self._records, nursery)
            nursery.start_soon(self._sweep_now_and_then)
            task_status.started()
            await trio.sleep_forever()

    def tell_last_news(self) -> None:
        """Let all followers have the state now: this daemon ends."""
        if self._bells is not None:
            self._bells.close()

    async def start(self, call: StartCommand) -> CommandState:
        """Start a command, unless its key is known.

        Raises: Conflict: the key is known with another command. Unavailable: it was not started; try again, or stop
            it, which proves that it will not be. OSError, DamagedFile.
        Durability: that it was taken is durable before it is executed.
        """
        digest = digest_of_command(call.spec)
        await self._prepare()
        async with self._turn(call.key):
            pauses = retry_pauses()
            with trio.move_on_after(_START_S):
                while (state := await self._start(call, digest, pauses)) is None:
                    pass
                return state
        raise Unavailable(f"command {call.key} was not begun within {_START_S:g} s; try again, or stop it")

    async def follow(self, call: FollowCommand) -> CommandNews:
        """Return when there is something new, or the wait is over. Raises: Unavailable, OSError, DamagedFile.

        Output alone is held back for a moment, so that a command that writes much costs few calls.
        """
        assert self._bells is not None
        await self._prepare()
        if not call.wait:
            return await in_thread(self._states.news, call)
        with self._bells.listen(call.key) as bell:
            news = await in_thread(self._states.news, call)
            with trio.move_on_after(min(call.wait, LONGEST_WAIT_S)):
                while not (_is_news(news, call) or self._bells.is_closed):
                    await bell.wait()
                    news = await in_thread(self._states.news, call)
            if not _is_little_output(news, call):
                return news
            with trio.move_on_after(_GATHER_S):
                await bell.wait_for_records()
            return await in_thread(self._states.news, call)

    async def stop(self, key: str) -> CommandState:
        """Ask for the end of a command; a key that has not begun becomes void. Raises: OSError.

        One with a damaged record counts as running.
        Durability: that it is void is durable on return.
        """
        await self._prepare()
        # without a turn: a start that is under way must not hold it up, and the key's lock decides between them
        while (state := await self._stop(key)) is None:
            pass
        return state

    async def forget(self, keys: Sequence[str]) -> None:
        """Replace the records of commands that have ended by notes. Raises: OSError: some are left; DamagedFile."""
        await self._prepare()
        for key in keys:
            async with self._turn(key):
                await in_thread(forget_ended, self._records, key, self._states.boot)

    async def states(self, after: str) -> tuple[CommandState, ...]:
        """The states of the keys after this one. Raises: OSError."""
        await self._prepare()
        return await in_thread(self._states.states_after, after)

    async def leave(self) -> None:
        """Take no more starts, and remove all records. Raises: Conflict: a command may run. OSError."""
        await self._prepare()
        self._is_leaving = True
        try:
            for turn in tuple(self._turns.values()):
                async with turn.lock:
                    pass
            running = await in_thread(self._states.running)
            if running:
                some = ", ".join(running[:3]) + (" and others" if len(running) > 3 else "")
                raise Conflict(f"commands of jobs run on this node: {some}; cancel them by gnt-job cancel --kill first")
            await in_thread(self._records.remove_all)
            self._has_folders = False
        except BaseException:
            self._is_leaving = False
            raise

    async def _start(self, call: StartCommand, digest: str, pauses: Iterator[float]) -> CommandState | None:
        """One step of a start; None: another one is needed."""
        found = await in_thread(self._records.read, call.key)
        match on_start(found.records, self._states.boot, digest):
            case Start.TELL:
                return await in_thread(self._states.state, call.key, found)
            case Start.REFUSE:
                raise Conflict(f"another command was started as {call.key} before; nothing was changed")
            case Start.AWAIT:
                await trio.sleep(next(pauses))
            case Start.ACCEPT:
                await self._accept(call, digest)
                await self._launch(call, digest, pauses)
            case Start.LAUNCH:
                await self._launch(call, digest, pauses)
            case never:
                assert_never(never)
        return None

    async def _accept(self, call: StartCommand, digest: str) -> None:
        if self._is_leaving:
            raise Unavailable("this node leaves the cluster and starts no more commands")
        bases = {"output_base": call.output_base, "error_base": call.error_base}
        record = StartRecord(digest=digest, boot=self._states.boot, **bases)
        try:
            await self._writes.commit([self._records.write(call.key, START, record)])
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise Unavailable(
                f"the command was not started: its start cannot be kept on this node: {reason}"
            ) from error

    async def _launch(self, call: StartCommand, digest: str, pauses: Iterator[float]) -> None:
        """Raises: Unavailable: it was not begun."""
        assert self._launcher is not None
        order = RunnerOrder(number=self._launcher.number(), key=call.key, digest=digest, spec=call.spec)
        word = await self._launcher.launch(order)
        if word is not None and word.word is Verdict.REFUSED:
            raise Unavailable(f"the command was not started: {word.reason}; try again, or stop it")
        if word is None or word.word is not Verdict.TOLD:
            _log.warning("command.start_repeated", command=call.key, word=word.word.value if word else "none")
            await trio.sleep(next(pauses))

    async def _stop(self, key: str) -> CommandState | None:
        try:
            found = await in_thread(self._records.read, key)
        except DamagedFile as error:
            self._states.doubt(key, error)
            await in_thread(signal_runner, self._records, key, self._launcher_socket)
            return CommandState(key=key, phase=CommandPhase.RUNNING)
        match on_stop(found.records, self._states.boot):
            case Stop.TELL:
                return await in_thread(self._states.state, key, found)
            case Stop.SIGNAL:
                await in_thread(signal_runner, self._records, key, self._launcher_socket)
                return await in_thread(self._states.state, key, found)
            case Stop.VOID:
                if not await in_thread(self._void_under_lock, key):
                    await trio.sleep(_LOOK_AGAIN_S)
                    return None
                _log.info("command.void", command=key)
                return CommandState(key=key, phase=CommandPhase.VOID)
            case never:
                assert_never(never)

    def _void_under_lock(self, key: str) -> bool:
        """Make a key void; false: it has begun, or is about to."""
        with self._records.locked(key) as is_ours:
            if not is_ours or self._records.path(key, LIVE).stat().st_size:
                return False
            durably(lambda: write_files([self._records.write(key, VOID, {})]))
            return True

    async def _sweep_now_and_then(self) -> None:
        """Forget what ended long ago, and remove old notes; now, and every hour."""
        while True:
            if self._settings.paths.node_commands.is_dir():
                try:
                    await self._sweep()
                except OSError as error:
                    _log.warning("commands.not_swept", reason=error, next="again in an hour")
            await trio.sleep(_SWEEP_S)

    async def _sweep(self) -> None:
        await self._prepare()
        await in_thread(sweep_leftovers, self._records)
        keep_s = self._settings.noded.keep_commands_days * DAY_S
        for key in await in_thread(self._records.all_keys):
            async with self._turn(key):
                await in_thread(sweep_key, self._records, key, self._states.boot, keep_s)

    async def _prepare(self) -> None:
        if not self._has_folders:
            await in_thread(self._records.make_folders)
            self._has_folders = True

    @asynccontextmanager
    async def _turn(self, key: str) -> AsyncIterator[None]:
        turn = self._turns.setdefault(key, _Turn())
        turn.users += 1
        try:
            async with turn.lock:
                yield
        finally:
            turn.users -= 1
            if not turn.users:
                del self._turns[key]


@attrs.define(eq=False)
class _Turn:
    """Calls that change one key, one after the other."""

    lock: trio.Lock = attrs.Factory(trio.Lock)
    users: int = 0


def _is_little_output(news: CommandNews, call: FollowCommand) -> bool:
    """Whether there is some output, but not much, and nothing else is new."""
    return 0 < len(news.output.data) + len(news.error.data) < _MUCH and news.state.phase is call.known


def _is_news(news: CommandNews, call: FollowCommand) -> bool:
    return bool(news.output.data or news.error.data) or news.state.phase is not call.known
