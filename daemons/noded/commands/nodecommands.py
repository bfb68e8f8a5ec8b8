"""The commands of this node: started, followed, stopped, forgotten, whatever has died meanwhile.

Theory. Nothing of a command is kept in memory: each call reads the records of its key, and
`daemons.noded.core.commandphases` decides. Calls that change a key wait for each other. So after a restart of this
daemon nothing has to be found again; whoever asks for a command reads what it has become.

Source: DESIGN section 13.
"""

import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import cached_property, partial
from typing import Final, assert_never

import attrs
import trio

from common.commands.output import OutputBytes, read_output, stream_end
from common.durable.atomicfile import remove_leftovers, write_files
from common.durable.durably import durably
from common.durable.groupcommit import GroupCommit
from common.errors import Conflict, DamagedFile, Unavailable, reason_of
from common.settings import Settings
from common.system.inthread import in_thread
from common.system.livelock import PROBE_AGAIN_AFTER_S
from common.system.log import get_log
from common.system.processes import boot_id
from common.system.shortages import retry_pauses
from common.system.watch import EventKind, FolderEvent, FolderWatch
from daemons.noded.commands.commandrecords import (
    END,
    ERRORS,
    GONE,
    LIVE,
    OUTPUT,
    START,
    VOID,
    CommandRecords,
    KeyRecords,
    StartRecord,
    digest_of_command,
)
from daemons.noded.commands.forking import signal_runner
from daemons.noded.commands.launching import RunnerLauncher
from daemons.noded.commands.runnermessages import OrderResult, RunnerOrder
from daemons.noded.core.commandphases import Start, Stop, may_be_forgotten, on_start, on_stop, phase_of
from protocol.noded.call import Content
from protocol.noded.commands import (
    LONGEST_WAIT_S,
    MOST_COMMANDS,
    MOST_OUTPUT,
    CommandNews,
    CommandPhase,
    CommandState,
    FollowCommand,
    StartCommand,
)

# News of commands: each follower is notified when something of its command has changed.
#
# Theory. The folder of records is watched (an end is put in place; a lock file is closed, as the kernel does at the
# death of its holder), the folder that holds the folders of output, and the output of each command that somebody
# follows. Nothing is watched before the first follower. The kernel reports a closed lock file some instructions before
# the lock is free, so its followers look again a few times. Where the kernel gives no watch, all followers look every
# second.
#
# Source: DESIGN sections 5 and 13.


_RECORDS: Final = EventKind.MOVED_TO | EventKind.CLOSE_WRITE
_OUTPUT: Final = EventKind.MODIFY | EventKind.CREATE
# seconds between two looks while the kernel tells of no news
_LOOK_S: Final = 1.0


class FollowerNotice:
    """Wakes one follower; a notice that comes between two waits is kept for the next one."""

    def __init__(self) -> None:
        self._notified = trio.Event()
        self._notified_of_records = trio.Event()

    def notify(self, *, is_for_records: bool) -> None:
        self._notified.set()
        if is_for_records:
            self._notified_of_records.set()

    async def wait(self) -> None:
        """Return when it was notified since the last wait."""
        await self._notified.wait()
        self._notified = trio.Event()

    async def wait_for_records(self) -> None:
        """Return when it was notified since the last such wait, but not of output."""
        await self._notified_of_records.wait()
        self._notified_of_records = trio.Event()


class CommandNotices:
    """Notifies all followers."""

    def __init__(self, records: CommandRecords, nursery: trio.Nursery) -> None:
        self._records = records
        self._nursery = nursery
        self._notices: dict[str, set[FollowerNotice]] = {}
        self._is_watching = False
        # key -> watch of its output
        self._outputs: dict[str, FolderWatch] = {}
        # no more news come: the daemon ends
        self.is_closed = False

    @contextmanager
    def listen(self, key: str) -> Iterator[FollowerNotice]:
        """Yield what wakes a follower of this key."""
        notice = FollowerNotice()
        self._notices.setdefault(key, set()).add(notice)
        try:
            self._begin()
            self._watch_output(key)
            yield notice
        finally:
            self._drop(key, notice)

    def close(self) -> None:
        """Notify all for the last time."""
        self.is_closed = True
        self._notify_all()

    def _begin(self) -> None:
        if not self._is_watching:
            self._is_watching = True
            # watched from here on, not only when the tasks begin
            self._follow(FolderWatch(self._records.folder, kinds=_RECORDS, look_s=_LOOK_S), self._take_records)
            self._follow(FolderWatch(self._records.outputs, kinds=EventKind.CREATE, look_s=_LOOK_S), self._take_folders)

    def _watch_output(self, key: str) -> None:
        folder = self._records.output(key)
        # without output yet the folder of folders tells of it
        if key not in self._outputs and folder.is_dir():
            watch = self._outputs[key] = FolderWatch(folder, kinds=_OUTPUT, look_s=_LOOK_S)
            self._follow(watch, partial(self._take_output, key))

    def _drop(self, key: str, notice: FollowerNotice) -> None:
        notices = self._notices[key]
        notices.discard(notice)
        if notices:
            return
        del self._notices[key]
        if (watch := self._outputs.pop(key, None)) is not None:
            watch.close()

    def _follow(self, watch: FolderWatch, take: Callable[[Sequence[FolderEvent]], None]) -> None:
        async def follow() -> None:
            async with watch:
                try:
                    while True:
                        take(await watch.events())
                except trio.ClosedResourceError:
                    # its last follower has gone
                    return

        self._nursery.start_soon(follow)

    def _take_records(self, events: Sequence[FolderEvent]) -> None:
        for event in events:
            if event.needs_rescan:
                self._notify_all()
                continue
            key, _, kind = event.name.rpartition(".")
            self._notify(key)
            if kind == LIVE and key in self._notices:
                self._nursery.start_soon(self._ring_again, key)

    def _take_folders(self, events: Sequence[FolderEvent]) -> None:
        is_any = any(event.needs_rescan for event in events)
        for key in tuple(self._notices) if is_any else self._notices.keys() & {event.name for event in events}:
            self._watch_output(key)
            self._notify(key, is_for_records=False)

    def _take_output(self, key: str, events: Sequence[FolderEvent]) -> None:
        if any(event.kind & EventKind.FOLDER_GONE for event in events) and key in self._outputs:
            # the folder of folders tells of a new one
            self._outputs.pop(key).close()
        self._notify(key, is_for_records=False)

    async def _ring_again(self, key: str) -> None:
        for pause_s in PROBE_AGAIN_AFTER_S:
            await trio.sleep(pause_s)
            self._notify(key)

    def _notify(self, key: str, *, is_for_records: bool = True) -> None:
        for notice in self._notices.get(key, ()):
            notice.notify(is_for_records=is_for_records)

    def _notify_all(self) -> None:
        for key in tuple(self._notices):
            self._notify(key)


# What callers are told of the commands of this node; read from the records at each call.
#
# The functions are for threads. Source: DESIGN section 13.


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

    def state(self, key: str, found: KeyRecords) -> CommandState:
        phase = phase_of(found.records, self.boot)
        if phase in (CommandPhase.UNKNOWN, CommandPhase.VOID):
            return CommandState(key=key, phase=phase)
        end, begun, start = found.end, found.begun, found.start
        return CommandState(
            key=key,
            phase=phase,
            begun_at=end.begun_at if end else begun.at if begun else 0.0,
            output_bytes=self._bytes_of(key, OUTPUT),
            error_bytes=self._bytes_of(key, ERRORS),
            output_base=start.output_base if start else 0,
            error_base=start.error_base if start else 0,
            outcome=end.outcome if end else None,
        )

    def news(self, call: FollowCommand) -> CommandNews:
        """The state, and what was written from the asked bytes on."""
        # the phase first: when it has ended, all of its output is there
        found = self._records.read(call.key)
        output = self._bytes_from(call.key, OUTPUT, call.output_from)
        errors = self._bytes_from(call.key, ERRORS, call.error_from)
        return CommandNews(
            # the sizes last: they are no less than what was read
            state=self.state(call.key, found),
            output_from=output.offset,
            output=Content(output.content),
            error_from=errors.offset,
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

    def _bytes_from(self, key: str, name: str, offset: int) -> OutputBytes:
        try:
            return read_output(self._records.stream(key, name), offset, MOST_OUTPUT)
        except FileNotFoundError:
            return OutputBytes(offset, b"")

    def _bytes_of(self, key: str, name: str) -> int:
        try:
            return stream_end(self._records.stream(key, name))
        except FileNotFoundError:
            return 0


# What is removed of old commands: notes after a day, ended commands after some days.
#
# Masters have ended commands removed themselves; this is for what they have forgotten, or could not ask for.


DAY_S: Final = 86_400.0
# age of a temporary file that nobody goes on writing
_LEFT_AFTER_S: Final = 3600.0


def forget_ended(records: CommandRecords, key: str, boot: str) -> None:
    """Replace the records of a key by a note, if nothing of it lives, or will. Raises: OSError, DamagedFile."""
    if may_be_forgotten(records.read(key).records, boot):
        records.forget(key)


def sweep_key(records: CommandRecords, key: str, boot: str, keep_s: float) -> None:
    """Remove what is too old of a key; one with a damaged record stays as it is. Raises: OSError."""
    now = time.time()
    note_age_s = records.age_of(key, GONE, now)
    if note_age_s is not None:
        # forgetting it may have been cut off
        records.remove_all_but_the_note(key)
        if note_age_s > DAY_S:
            records.path(key, GONE).unlink(missing_ok=True)
        return
    ages = [age for kind in (END, VOID, START) if (age := records.age_of(key, kind, now)) is not None]
    if not ages:
        _sweep_lock(records, key, now, keep_s)
    elif min(ages) > keep_s:
        try:
            forget_ended(records, key, boot)
        except DamagedFile as error:
            _log.warning("command.not_forgotten", command=key, reason=error.message, effect="the others are")


def _sweep_lock(records: CommandRecords, key: str, now: float, keep_s: float) -> None:
    """Remove a lock file without records, left by a stop that was cut off."""
    age_s = records.age_of(key, LIVE, now)
    if age_s is not None and age_s > keep_s:
        with records.locked(key) as is_ours:
            if is_ours:
                records.path(key, LIVE).unlink()


def sweep_leftovers(records: CommandRecords) -> None:
    """Remove files that a process was writing when it was killed. Raises: OSError."""
    remove_leftovers(records.folder, lambda _: True, min_age_s=_LEFT_AFTER_S)


# seconds between two tries to make void a key whose runner, of another noded, is about to begin
_LOOK_AGAIN_S: Final = 0.02
# seconds that a start takes at most before the caller is told to try again
_START_S: Final = 45.0
# seconds that output alone is held back for more of it, and bytes from which it is not
_GATHER_S: Final = 0.03
_MUCH: Final = 256 * 2**10
_SWEEP_S: Final = 3600.0


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
        self._launcher: RunnerLauncher | None = None
        self._notices: CommandNotices | None = None

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Work for the callers; for `nursery.start`. Cancellation: the commands run on."""
        async with trio.open_nursery() as nursery:
            await nursery.start(self._writes.run)
            self._launcher = RunnerLauncher(self._settings, nursery)
            self._notices = CommandNotices(self._records, nursery)
            nursery.start_soon(self._sweep_now_and_then)
            task_status.started()
            await trio.sleep_forever()

    def tell_last_news(self) -> None:
        """Let all followers have the state now: this daemon ends."""
        if self._notices is not None:
            self._notices.close()

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
        assert self._notices is not None
        await self._prepare()
        if not call.wait:
            return await in_thread(self._states.news, call)
        with self._notices.listen(call.key) as notice:
            news = await in_thread(self._states.news, call)
            with trio.move_on_after(min(call.wait, LONGEST_WAIT_S)):
                while not (_is_news(news, call) or self._notices.is_closed):
                    await notice.wait()
                    news = await in_thread(self._states.news, call)
            if not _is_little_output(news, call):
                return news
            with trio.move_on_after(_GATHER_S):
                await notice.wait_for_records()
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
            reason = reason_of(error)
            raise Unavailable(
                f"the command was not started: its start cannot be kept on this node: {reason}"
            ) from error

    async def _launch(self, call: StartCommand, digest: str, pauses: Iterator[float]) -> None:
        """Raises: Unavailable: it was not begun."""
        assert self._launcher is not None
        order = RunnerOrder(number=self._launcher.number(), key=call.key, digest=digest, spec=call.spec)
        word = await self._launcher.launch(order)
        if word is not None and word.word is OrderResult.REFUSED:
            raise Unavailable(f"the command was not started: {word.reason}; try again, or stop it")
        if word is None or word.word is not OrderResult.TOLD:
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
