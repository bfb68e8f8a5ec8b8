"""A command that runs on this machine: from its spec to its outcome.

A job process runs the commands of its opcodes so, and the runner on a node those that a job process has started there.
What the spec names (users, folders, programs) is looked up here; what is missing is told in words for users.

    command = LocalCommand(spec, place)
    command.check()
    outcome = command.run(output.append, None, on_begun, on_kill)
    if command.left is not None: ...

Source: DESIGN sections 7, 13 and 16.
"""

import contextlib
import errno
import os
import pwd
import resource
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, assert_never

import attrs

from common.commands.cgroups import GroupTree, WantedLimits
from common.commands.execution import Launch, NotStarted, Prelude, Stage, StartStep, StepFailure, UnixAccount
from common.commands.spec import CommandOutcome, CommandSpec
from common.commands.supervision import SupervisorTerms
from common.commands.supervisor import (
    KeptProcesses,
    RunningProgram,
    Sink,
    StartSupervisor,
    SupervisorLost,
    starter,
)
from common.commands.surroundings import SHELL, environment_of, environment_of_installation
from common.errors import GantryError, PrerequisiteError, Unavailable
from common.settings import Settings
from common.system.accounts import groups_of, user_named
from common.system.livelock import Livelock
from common.system.signals import ProcessSignals, do_nothing

# Why a command could not be started, in words: each reason has its own text.


_MAGIC_BYTES: Final = 4
_ELF: Final = b"\x7fELF"
_ENTERED: Final = {errno.ENOENT: "does not exist", errno.ENOTDIR: "is not a folder"}


def folder_words(cwd: str, number: int | None, user: str) -> str:
    """Args: number: errno of entering the folder."""
    if number in _ENTERED:
        return f"cwd {cwd!r} {_ENTERED[number]}"
    return f"user {user!r} cannot enter cwd {cwd!r}: {_reason(number)}; name another folder, or change its mode"


def prelude_words(failure: StepFailure, user: str) -> str:
    """Why a step between fork and exec failed."""
    match failure.step:
        case StartStep.FOLDER:
            return folder_words(failure.name, failure.number, user)
        case StartStep.INPUT:
            what = "it is not a regular file" if failure.number is None else _reason(failure.number)
            return f"user {user!r} cannot read {failure.name!r} for standard input: {what}"
        case StartStep.NICENESS:
            return f"user {user!r} may not have the niceness {failure.name}: {_reason(failure.number)}"
        case StartStep.LIMIT:
            number = int(failure.name)
            return f"the limit '{limit_name(number)}' cannot be set: user {user!r} has at most {_hard_limit(number)}"
        case _:
            assert_never(failure.step)


def program_words(program: str, path: str, error: OSError) -> str:
    """Why a program was not executed.

    Args:
        path: the PATH that was searched.
    """
    found = _find(program, path)
    match error.errno:
        case errno.ENOENT if found is not None:
            return f"{program!r} cannot be started: the program that its '#!' line names does not exist"
        case errno.ENOENT | errno.ENOTDIR:
            where = "" if "/" in program else f" in the PATH of the job, {path}"
            return f"there is no program {program!r}{where}; give its full path, or install it"
        case errno.ENOEXEC:
            return f"{program!r} cannot be started: {_format_words(found)}"
        case errno.EACCES if found is not None and os.path.isdir(found):
            return f"{program!r} is a folder; name a program"
        case errno.EACCES | errno.EPERM:
            return f"{program!r} may not be executed: {_reason(error.errno)}; check its mode and owner"
        case errno.E2BIG:
            return f"{program!r} cannot be started: its arguments and its environment are too long for the kernel"
        case _:
            return f"{program!r} cannot be started: {_reason(error.errno)}"


def limit_name(number: int) -> str:
    """`nofile` for RLIMIT_NOFILE."""
    names = (name for name in dir(resource) if name.startswith("RLIMIT_") and getattr(resource, name) == number)
    return next(names, str(number)).removeprefix("RLIMIT_").lower()


def _hard_limit(number: int) -> str:
    hard = resource.getrlimit(number)[1]
    return "unlimited" if hard == resource.RLIM_INFINITY else str(hard)


def _format_words(found: str | None) -> str:
    try:
        with open(found or "", "rb") as file:
            magic = file.read(_MAGIC_BYTES)
    except OSError:
        magic = b"?"
    if magic == _ELF:
        return "it is made for another kind of machine"
    if not magic:
        return "it is empty"
    return "it is a script without a '#!' line; begin it with '#!/bin/sh', or run it by its interpreter: sh SCRIPT"


def _find(program: str, path: str) -> str | None:
    places = [program] if "/" in program else [os.path.join(folder, program) for folder in path.split(os.pathsep)]
    return next((place for place in places if os.path.lexists(place)), None)


def _reason(number: int | None) -> str:
    return os.strerror(number).lower() if number is not None else "it is not known why"


# the submitter of jobs without an owner, for the launcher
ROOT: Final = "root"
NO_CPUS: Final = (
    "cannot enforce 'cpus': no control group for processors can be made here; give the service that starts commands "
    "DelegateSubgroup=supervisor (systemd 254), or leave it out"
)


# starter of supervisors by the launcher: for this submitter, as this user
MakeStarter = Callable[[str, str, Livelock], StartSupervisor]


@attrs.frozen(kw_only=True)
class CommandPlace:
    """What a process has for a command that it runs."""

    settings: Settings
    # installed; `kill_asked` of them ends the command
    signals: ProcessSignals
    # livelock that the command's supervisor holds as well
    livelock: Livelock
    # makes the starter of supervisors that may become other users; None: there is no launcher here
    launcher: MakeStarter | None = None
    # tree for the command's control group, and its name there; None: no control groups here
    groups: GroupTree | None
    group_name: str
    # job of the command, for the log
    job_id: int
    # name of the supervisor among the processes of the machine
    title: str


class LocalCommand:
    """A command from its check to its end.

    Args:
        spec: its `env` holds the variables that name the job; those that name this installation are added here.
    """

    def __init__(self, spec: CommandSpec, place: CommandPlace) -> None:
        self._spec = spec
        self._place = place
        # processes that the command left under the locks, after `run`; the caller closes it
        self.left: KeptProcesses | None = None
        # see `CommandOutcome`; known when the program has begun
        self.limited_each = False

    def check(self) -> None:
        """Look whether this machine has what the spec names.

        Raises: PrerequisiteError: it lacks the user or the folder, this process cannot become the user, or users
            cannot be read now.
        """
        for name, path in (("cwd", self._spec.cwd), ("stdin_path", self._spec.stdin_path)):
            if path is not None and not os.path.isabs(path):
                raise PrerequisiteError(f"{name} must be an absolute path, got {path!r}", "wrong_input")
        # another user's folder is entered with that user's rights, so the check happens at the start of the program
        if self._user() is None:
            _check_folder(self._spec.cwd)

    def run(
        self,
        sink: Sink,
        error_sink: Sink | None = None,
        on_begun: Callable[[], None] = do_nothing,
        on_kill: Callable[[], None] = do_nothing,
    ) -> CommandOutcome:
        """Run the command to its end; what could not be begun is an outcome as well.

        Args:
            sink: gets the output in pieces, as they come.
            error_sink: the same for standard error; used if the spec wants it apart.
            on_begun: called once, when the program was executed.
            on_kill: called once, when a kill has requested the end.
        Raises: PrerequisiteError: as `check`.
        """
        program: RunningProgram | None = None
        try:
            program = self._start(sink, error_sink if self._spec.stderr_apart else None)
            self.limited_each = program.limited_each
            on_begun()
            outcome, self.left = program.run(on_kill)
        except _NotBegun as reason:
            return CommandOutcome(not_begun=str(reason))
        except SupervisorLost:
            return CommandOutcome(supervisor_lost=True, was_killed=self._place.signals.kill_asked)
        finally:
            if program is not None:
                program.close()
        return outcome

    def _start(self, sink: Sink, error_sink: Sink | None) -> RunningProgram:
        """Raises: _NotBegun; SupervisorLost."""
        try:
            launch = self._launch()
        except OSError as error:
            # a descriptor or memory for its start is lacking
            path = self._place.settings.jobproc.command_path
            raise _NotBegun(program_words(self._spec.argv[0], path, error)) from error
        try:
            return RunningProgram(
                launch, self._terms(), sink, self._place.signals, self._starter(launch.account), error_sink
            )
        except NotStarted as failure:
            step = launch.prelude.failure() if failure.stage is Stage.PRELUDE else None
            text = prelude_words(step, self._user_name) if step else _program_words(launch, failure.error)
            raise _NotBegun(NO_CPUS if failure.stage is Stage.LIMIT else text) from failure
        except GantryError as refusal:
            raise _NotBegun(refusal.message) from refusal
        except OSError as error:
            raise _NotBegun(_program_words(launch, error)) from error
        finally:
            if launch.stdin is not None:
                os.close(launch.stdin)
            launch.prelude.close()

    def _launch(self) -> Launch:
        spec, settings, user = self._spec, self._place.settings, self._user()
        argv = [SHELL, "-c", " ".join(spec.argv)] if spec.shell else list(spec.argv)
        with _telling_what_is_unreadable():
            env = {**environment_of(user, settings), **spec.env, **environment_of_installation(settings)}
            account = user and UnixAccount(user.pw_uid, user.pw_gid, tuple(groups_of(user)))
        return Launch(
            argv,
            env,
            Prelude(spec.cwd, spec.stdin_path, _limits_of(spec.ulimits), spec.nice or 0),
            account=account,
            umask=settings.jobproc.command_umask,
            stdin=None if spec.stdin_text is None else _file_of(spec.stdin_text),
        )

    def _terms(self) -> SupervisorTerms:
        spec, place = self._spec, self._place
        return SupervisorTerms(
            place.job_id,
            place.title,
            spec.leave,
            spec.timeout,
            spec.grace_s,
            place.groups,
            place.group_name,
            place.settings.paths.run,
            WantedLimits(spec.memory, spec.cpus),
        )

    def _starter(self, account: UnixAccount | None) -> StartSupervisor:
        place = self._place
        if account is None or place.launcher is None:
            return starter(place.livelock, place.signals)
        # an owner without a login is nobody to the launcher, and not root
        submitter = ROOT if self._spec.submitter is None else self._spec.submitter
        return place.launcher(submitter, self._user_name, place.livelock)

    @property
    def _user_name(self) -> str:
        return self._spec.user or _own_name()

    def _user(self) -> pwd.struct_passwd | None:
        """The user to run as; None: this process's. Raises: PrerequisiteError."""
        if self._spec.user is None:
            return None
        with _telling_what_is_unreadable():
            user = user_named(self._spec.user)
        if user is None:
            raise PrerequisiteError(f"there is no user {self._spec.user!r} on this machine", "unknown_entity")
        if user.pw_uid == os.geteuid():
            return None
        if os.geteuid() != 0 and self._place.launcher is None:
            raise PrerequisiteError(
                f"jobs run as {_own_name()!r} here and cannot become {self._spec.user!r}; "
                "root can change that: 'gantry cluster run-as-submitter'"
            )
        return user


@contextlib.contextmanager
def _telling_what_is_unreadable() -> Iterator[None]:
    """Refuse the command with the reason why users cannot be looked up, which is no word about the user."""
    try:
        yield
    except Unavailable as error:
        raise PrerequisiteError(error.message, "temp_insufficient_resources") from error


class _NotBegun(Exception):
    """The program was not executed; the text says why."""


def _program_words(launch: Launch, error: OSError) -> str:
    return program_words(launch.argv[0], launch.env["PATH"], error)


def _limits_of(ulimits: Mapping[str, Sequence[int]]) -> Mapping[int, tuple[int, int]]:
    """The limits by the kernel's numbers."""
    return {getattr(resource, f"RLIMIT_{name.upper()}"): (pair[0], pair[-1]) for name, pair in ulimits.items() if pair}


def _check_folder(cwd: str) -> None:
    """Raises: PrerequisiteError: this process's user cannot enter the folder."""
    try:
        os.close(os.open(cwd, os.O_PATH | os.O_DIRECTORY))
        if not os.access(cwd, os.X_OK):
            raise PermissionError(errno.EACCES, "")
    except OSError as error:
        text = folder_words(cwd, error.errno, _own_name())
        raise PrerequisiteError(text, "unknown_entity") from error


def _own_name() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def _file_of(text: str) -> int:
    """Make a file in memory with this text, positioned at its start; the caller closes it."""
    fd = os.memfd_create("stdin", os.MFD_CLOEXEC)
    with open(fd, "wb", closefd=False) as file:
        file.write(text.encode("utf-8", "replace"))
    os.lseek(fd, 0, os.SEEK_SET)
    return fd
