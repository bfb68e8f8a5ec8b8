"""One request: read, judged by root's rules, carried out; in a process of its own, which becomes the supervisor.

Source: DESIGN sections 5, 7 and 16; protocol.launcher.
"""

import contextlib
import errno
import os
import pwd
import signal
import socket
import stat
import time
from pathlib import Path
from typing import Final, assert_never

import attrs

from common.commands.cgroups import GroupTree, WantedLimits, is_group_name
from common.commands.execution import Launch, NotStarted, Prelude, UnixAccount
from common.commands.localcommand import NO_CPUS
from common.commands.spec import Leave
from common.commands.supervision import Supervision, SupervisorTerms, supervise_and_exit
from common.commands.supervisor import HeldProgram, hold
from common.errors import Denied, GantryError, InvalidRequest, PrerequisiteError, Unavailable, reason_of
from common.settingsfile import parse_toml
from common.system.accounts import check_trusted, group_numbered, groups_of, user_named
from common.system.log import get_log
from common.system.processes import find_process, send
from common.system.signals import ProcessSignals
from common.wire import structure, unstructure
from daemons.launcher.core.rules import LauncherRules, Person, may_run_as
from daemons.launcher.records import LaunchRecords, Record
from protocol.envelope import Call, CallBatch, Dialect, failure, read_message, success
from protocol.framing import Framer, pack
from protocol.launched import MOST_BYTES, End, EndCommands, Running
from protocol.launcher import Descriptors, LaunchCommand, LaunchedCommand, Started
from protocol.messages import AnyRequest, structure_request
from protocol.peer import peer_of

# seconds for a whole request
_PATIENCE_S: Final = 30.0
# seconds for a caller that was refused to take the reply
_FAREWELL_S: Final = 1.0
_CHUNK: Final = 64 * 2**10
_MOST_FDS: Final = 16
_GREATEST_TITLE: Final = 200
# the dialect of all replies
_CALL: Final = Call("", [])
_log: Final = get_log(__name__)


@attrs.frozen
class LauncherContext:
    """What the launcher has for its requests."""

    rules_file: Path
    # callers in the rules at the start: they may end commands also while the rules cannot be read
    callers: tuple[str, ...]
    # folder of its own
    folder: Path
    records: LaunchRecords
    # None: no control groups can be made here
    groups: GroupTree | None
    # installed
    signals: ProcessSignals


def serve_request(sock: socket.socket, place: LauncherContext) -> None:
    """Serve one connection, in a forked child with the signals in `HANDLED` blocked; of a start it does not return."""
    request = LauncherConnection(sock, place)
    try:
        call = request.receive()
        match call:
            case LaunchCommand():
                request.start(call)
            case EndCommands():
                request.reply(request.end(call))
            case _:
                raise InvalidRequest(f"the launcher does not know {call.METHOD}")
    except GantryError as error:
        peer = peer_of(sock)
        _log.warning("request.refused", reason=error.message, uid=peer.uid, client_pid=peer.pid)
        with contextlib.suppress(OSError):
            sock.sendall(pack(failure(Dialect.GANETI, error)))
            # what was not read would make the caller lose the reply
            sock.shutdown(socket.SHUT_WR)
            sock.settimeout(_FAREWELL_S)
            while sock.recv(_CHUNK):
                pass


class LauncherConnection:
    """A caller's connection, and the one request that it carries."""

    def __init__(self, sock: socket.socket, place: LauncherContext) -> None:
        self._sock = sock
        self._place = place
        self._rules = LauncherRules(callers=place.callers)
        # why the rules cannot be read
        self._unread: GantryError | None = None
        self._fds: list[int] = []

    def receive(self) -> AnyRequest:
        """Return the request. Raises: GantryError: it is none, or the caller may not call."""
        try:
            self._rules = read_rules(self._place.rules_file)
        except GantryError as error:
            self._unread = error
        self._check_caller()
        framer, deadline = Framer(MOST_BYTES), time.monotonic() + _PATIENCE_S
        while True:
            self._sock.settimeout(max(deadline - time.monotonic(), 0.001))
            try:
                data, fds, flags, _ = socket.recv_fds(self._sock, _CHUNK, _MOST_FDS, socket.MSG_CMSG_CLOEXEC)
            except OSError as error:
                raise Unavailable(f"the request did not come: {error}") from error
            for fd in fds:
                # Python 3.11 drops the flag that would do this
                os.set_inheritable(fd, False)
            self._fds += fds
            if flags & socket.MSG_CTRUNC or len(self._fds) > _MOST_FDS:
                raise InvalidRequest(f"at most {_MOST_FDS} descriptors go with a request")
            if not data:
                raise Unavailable("the caller has gone")
            for payload in framer.feed(data):
                return _read(payload)

    def reply(self, reply: object) -> None:
        """Raises: Unavailable: the caller has gone."""
        try:
            self._sock.sendall(pack(success(_CALL, unstructure(reply))))
        except OSError as error:
            raise Unavailable(f"the caller has gone: {error}") from error

    def start(self, call: LaunchCommand) -> None:
        """Start the command, and supervise it to its end. Raises: GantryError: it is refused, and was not started."""
        place, command = self._place, call.command
        if self._unread is not None:
            raise self._unread
        account = self._account(call)
        fds = Descriptors.of(command, self._fds)
        livelock = os.fstat(fds.livelock)
        if not stat.S_ISREG(livelock.st_mode):
            raise InvalidRequest("the second descriptor must be a livelock, which is a regular file")
        # the supervisor writes there as root: some files of the kernel look at who writes, not at who has opened them
        if not all(stat.S_ISFIFO(os.fstat(fd).st_mode) for fd in (fds.status, *fds.prelude, *fds.outputs)):
            raise InvalidRequest("the descriptors for reports and output must be pipes")
        if place.groups is None:
            raise PrerequisiteError("the launcher needs control groups, and can make none here")
        terms = _terms(command, place.groups, place.folder)
        launch = _launch(command, fds, account)
        if command.leave is Leave.DETACH:
            self._sweep(place.groups)
        own = find_process(os.getpid())
        assert own is not None, "it reads its own entry in /proc"
        folder = place.groups.group(command.group_name).folder
        record = Record(own.pid, own.started_at, livelock.st_dev, livelock.st_ino, place.groups.way, folder)
        try:
            place.records.write(record)
            held = _held(launch, terms)
            assert held.group is not None
            self.reply(Started(own.pid, held.group.way, held.group.folder, tuple(held.limited.by_controller)))
        except (GantryError, OSError) as error:
            place.records.remove(own.pid)
            if isinstance(error, OSError):
                raise Unavailable(f"the command cannot be started: {error.strerror or error}") from error
            raise
        _log.info(
            "command.started",
            job=command.job_id,
            submitter=call.submitter,
            user=call.user,
            pid=own.pid,
            program=command.argv[0],
        )
        self._sock.setblocking(False)
        supervision = Supervision(
            launch=held.launch,
            terms=terms,
            signals=place.signals,
            outputs=fds.outputs,
            status=fds.status,
            livelock_fd=fds.livelock,
            process_group=0,
            group=held.group,
            limited=held.limited,
            control=self._sock.fileno(),
        )
        supervise_and_exit(supervision, lambda: place.records.remove(own.pid))

    def end(self, call: EndCommands) -> tuple[Running, ...]:
        """End commands, as far as wanted; return those that there were. Raises: GantryError."""
        try:
            records = self._place.records.all().values()
        except OSError as error:
            raise Unavailable(f"the commands of the launcher cannot be listed: {error}") from error
        found = [each for each in records if (each.device, each.inode) == (call.device, call.inode)]
        return tuple(_end(each, call.how) for each in found if each.is_supervised)

    def _check_caller(self) -> None:
        uid = peer_of(self._sock).uid
        known = [user.pw_uid for login in self._rules.callers if (user := user_named(login)) is not None]
        if uid not in known:
            raise Denied(
                f"user {uid} may not call the launcher; 'callers' in '{self._place.rules_file}' names those who may"
            )

    def _account(self, call: LaunchCommand) -> UnixAccount:
        """Raises: Denied, PrerequisiteError, Unavailable."""
        submitter, user = _user(call.submitter), _user(call.user)
        groups = groups_of(user)
        if not may_run_as(self._rules, _person(submitter), _person(user)):
            raise Denied(
                f"jobs of {call.submitter!r} may not run as {call.user!r} on this machine; root says who may, in "
                f"'[run_as]' of '{self._place.rules_file}'"
            )
        return UnixAccount(user.pw_uid, user.pw_gid, tuple(groups))

    def _sweep(self, groups: GroupTree) -> None:
        # nobody notices when the groups of detached commands are empty
        with contextlib.suppress(OSError):
            groups.sweep({os.path.basename(each.folder) for each in self._place.records.all().values()})


def read_rules(path: Path) -> LauncherRules:
    """Raises: PrerequisiteError: there is no such file, or it cannot be read. Denied: it is not root's alone.
    InvalidRequest: it is not understood."""
    try:
        check_trusted(path)
        with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW), "rb") as file:
            content = file.read()
    except OSError as error:
        reason = reason_of(error)
        raise PrerequisiteError(f"the rules of the launcher cannot be read: '{path}': {reason}") from error
    return structure(parse_toml(path, content), LauncherRules, f"rules in '{path}'")


def _read(payload: bytes) -> AnyRequest:
    call = read_message(payload)
    if isinstance(call, CallBatch):
        raise InvalidRequest("a connection to the launcher carries one request")
    for kind in (LaunchCommand, EndCommands):
        if call.method == kind.METHOD:
            return structure_request(kind, call.params)
    raise InvalidRequest(f"unknown method {call.method[:80]!r}; the launcher knows startCommand and endCommands")


def _user(login: str) -> pwd.struct_passwd:
    found = user_named(login)
    if found is None:
        raise PrerequisiteError(f"there is no user {login!r:.80} on this machine", "unknown_entity")
    return found


def _person(user: pwd.struct_passwd) -> Person:
    return Person(user.pw_name, user.pw_uid, frozenset(map(_group_name, groups_of(user))))


def _group_name(gid: int) -> str:
    found = group_numbered(gid)
    return "" if found is None else found.gr_name


def _terms(command: LaunchedCommand, groups: GroupTree, folder: Path) -> SupervisorTerms:
    """Raises: InvalidRequest: a value that no supervisor can have."""
    if not is_group_name(command.group_name):
        raise InvalidRequest(f"{command.group_name!r:.80} is no name of a control group of a command")
    return SupervisorTerms(
        command.job_id,
        command.title[:_GREATEST_TITLE],
        command.leave,
        command.timeout_s,
        command.grace_s,
        groups,
        command.group_name,
        folder,
        WantedLimits(command.memory_bytes, command.cpus),
    )


def _launch(command: LaunchedCommand, fds: Descriptors, account: UnixAccount) -> Launch:
    """Raises: InvalidRequest."""
    if not command.argv or "PATH" not in command.env:
        raise InvalidRequest("a command needs a program, and PATH in its environment")
    try:
        limits = {int(number): (pair[0], pair[-1]) for number, pair in command.limits.items()}
    except (ValueError, IndexError) as error:
        raise InvalidRequest(f"limits must be numbers: {error}") from None
    prelude = Prelude(command.cwd, command.stdin_path, limits, command.niceness, fds.prelude)
    return Launch(command.argv, command.env, prelude, account, command.umask & 0o777, fds.stdin)


def _held(launch: Launch, terms: SupervisorTerms) -> HeldProgram:
    """Raises: PrerequisiteError."""
    try:
        held = hold(launch, terms)
    except NotStarted as error:
        raise PrerequisiteError(NO_CPUS) from error
    if held.group is None:
        held.remove()
        raise PrerequisiteError("no control group can be made for the command; the log of the launcher has the reason")
    return held


def _end(record: Record, how: End) -> Running:
    pids = tuple(sorted(record.group.pids()))
    match how:
        case End.NO:
            pass
        case End.ASK:
            send(record.supervisor, signal.SIGTERM)
        case End.KILL:
            if pids:
                end_group(record)
            else:
                send(record.supervisor, signal.SIGKILL)
        case _:
            assert_never(how)
    return Running(record.pid, record.started_at, pids)


def end_group(record: Record) -> bool:
    """Kill what is in the command's group; return whether it is empty, and removed."""
    group = record.group
    try:
        if not group.is_empty():
            group.kill()
        return group.remove()
    except FileNotFoundError:
        return True
    except OSError as error:
        if error.errno != errno.ENOENT:
            _log.warning("group.not_killed", folder=record.folder, reason=error, next="try again")
        return error.errno in (errno.ENOENT, errno.ENODEV)
