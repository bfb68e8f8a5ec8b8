"""Run a page in its environment, step by step, and tell where it differs from what is seen."""

import difflib
import os
import re
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import PurePosixPath
from typing import Final

import attrs

from tests.guide.environments import Environment
from tests.guide.likeness import Known, match, merged
from tests.guide.page import Command, File, Page, Prompt, WrongPage
from tests.guide.session import Done, Interruption, Session, Stuck

CTRL_C: Final = "^C"
# commands that only look: they are repeated until they show what the page says, as a reader would do
_LOOKS: Final = re.compile(
    r"(gnt-\w+|gantry( job)?) (--?\S+ )*"
    r"(list|info|why|output|log|history|batch|locks|status|show|orphaned-locks|cluster|verify|mond|confd)\b"
    r"|gantry (schedule|resource|token|user|access)( \S+)* (list|show)\b|(cat|ls|tail|head|grep|wc|curl)\b"
)
_NOT_A_LOOK: Final = re.compile(r"[;&|>]|--(wait|follow)\b| -[fw]\b")
_LOOK_FOR_S: Final = 60.0
# of a page that differs already: what follows mostly differs for the same reason
_LOOK_AGAIN_FOR_S: Final = 5.0
# a page lasts no longer, on a machine that may be 10 times slower
PAGE_S: Final = 600.0
_PAUSE_S: Final = 0.25
# seconds until Ctrl-C, where the page does not say yet what is to be seen
_FOLLOW_S: Final = 3.0


@attrs.frozen
class Difference:
    """A command that does not print what its page says, or ends otherwise."""

    page: Page
    command: Command
    seen: Done
    # what the page should say
    merged: tuple[str, ...]

    def told(self) -> str:
        """As a diff with page and line, for people."""
        head = _place_of(self.page, self.command)
        if not _is_code_fine(self.command, self.seen):
            head += f"\n  exit code {self.seen.exit_code}, the page says {self.command.exit_code}"
        diff = difflib.unified_diff(self.command.expected, self.merged, n=2, lineterm="")
        return "\n".join([head, *(f"  {line}" for line in list(diff)[2:])])


@attrs.frozen
class Result:
    page: Page
    differences: tuple[Difference, ...]
    # for how long each command ran, looks with all their repetitions
    times: tuple[tuple[Command, float], ...]
    seconds: float
    # where it could not go on, and why; None: it went to its end
    halt: str | None

    @property
    def is_as_told(self) -> bool:
        return not self.differences and self.halt is None

    def told(self) -> str:
        """What is wrong with the page, for people."""
        return "\n\n".join([*(difference.told() for difference in self.differences), *filter(None, [self.halt])])


class _Halt(Exception):
    """A page cannot go on; tells where, and what it waited for."""


def run_page(page: Page, environment: Environment, *, is_accepting: bool = False) -> Result:
    """Run its steps, to the end or until it cannot go on.

    Args: is_accepting: the page does not know yet what there is to see.
    Raises: WrongPage: it names a machine that its environment has not.
    """
    began = time.monotonic()
    halt = None
    with ExitStack() as ending:
        run = _Run(page, environment, ending, is_accepting=is_accepting)
        try:
            run.carry_out()
        except _Halt as halted:
            halt = str(halted)
        return Result(page, tuple(run.differences), tuple(run.times), time.monotonic() - began, halt)


class _Run:
    """A page on its way."""

    def __init__(self, page: Page, environment: Environment, ending: ExitStack, *, is_accepting: bool) -> None:
        self._page = page
        self._environment = environment
        self._ending = ending
        self._is_accepting = is_accepting
        self._deadline = time.monotonic() + PAGE_S
        self.differences: list[Difference] = []
        self.times: list[tuple[Command, float]] = []
        # by machine and user
        self._sessions: dict[tuple[str, str], Session] = {}
        self._known = Known()
        # where the last command was
        self._last = self._place(Prompt())

    def carry_out(self) -> None:
        """Go from step to step. Raises: _Halt."""
        for step in self._page.steps:
            if isinstance(step, File):
                self._write(step)
                continue
            began = time.monotonic()
            difference = self._carry_out(step)
            self.times.append((step, time.monotonic() - began))
            if difference is not None:
                self.differences.append(difference)
                if time.monotonic() > self._deadline and not self._is_accepting:
                    why = f"the page was not done after {PAGE_S:g} s, and waited here"
                    raise _Halt(_place_of(self._page, step, why))

    def _carry_out(self, command: Command) -> Difference | None:
        """Run it; what differs, or None."""
        follows = bool(command.expected) and command.expected[-1] == CTRL_C
        expected = command.expected[:-1] if follows else command.expected
        done = self._run_until_alike(command, expected, follows=follows)
        after = match(expected, done.lines, self._known)
        if after is not None and _is_code_fine(command, done):
            self._known = after
            return None
        new = merged(expected, done.lines, self._known)
        self._known = match(new, done.lines, self._known) or self._known
        return Difference(self._page, command, done, (*new, CTRL_C) if follows else new)

    def _run_until_alike(self, command: Command, expected: Sequence[str], *, follows: bool) -> Done:
        text = self._known.in_this_run(command.text)
        interruption = self._interruption(expected) if follows else None
        deadline = min(self._deadline, time.monotonic() + self._patience_s())
        before = None
        while True:
            try:
                done = self._session(command.prompt).run(text, self._deadline, until_interrupted=interruption)
            except Stuck as stuck:
                raise _Halt(_place_of(self._page, command, str(stuck))) from stuck
            is_settled = self._is_accepting and before is not None and _is_same(before, done)
            is_fine = match(expected, done.lines, self._known) is not None and _is_code_fine(command, done)
            if is_fine or is_settled or not _is_look(command) or time.monotonic() > deadline:
                return done
            before = done
            time.sleep(_PAUSE_S)

    def _interruption(self, expected: Sequence[str]) -> Interruption:
        def is_enough(seen: Sequence[str]) -> bool:
            return bool(expected) and match(expected, seen, self._known) is not None

        return Interruption(is_enough, _FOLLOW_S if self._is_accepting else self._patience_s())

    def _patience_s(self) -> float:
        """For how long a look is repeated."""
        return _LOOK_AGAIN_FOR_S if self.differences and not self._is_accepting else _LOOK_FOR_S

    def _place(self, prompt: Prompt) -> tuple[str, str]:
        return prompt.machine or self._environment.first, prompt.user or self._environment.user

    def _session(self, prompt: Prompt) -> Session:
        place = self._last = self._place(prompt)
        name, user = place
        if name not in self._environment.machines:
            known = ", ".join(self._environment.machines)
            raise WrongPage(f"{self._page.path}: no machine {name!r} in its environment, which has {known}")
        machine = self._environment.machines[name]
        if any(session.is_over for at, session in self._sessions.items() if at[0] == name):
            # all sessions there ended with its power
            self._sessions = {at: session for at, session in self._sessions.items() if at[0] != name}
            machine.power_on()
        if place not in self._sessions:
            self._sessions[place] = self._ending.enter_context(Session(machine, user))
        return self._sessions[place]

    def _write(self, file: File) -> None:
        """Write a file as the user who would: the one of the last command, or the page's on that machine."""
        name, user = self._place(Prompt(machine=file.machine)) if file.machine else self._last
        folder = self._session(Prompt(user, name)).folder
        machine = self._environment.machines[name]
        home = "/root" if user == "root" else f"/home/{user}"
        path = machine.path(str(PurePosixPath(folder, file.path.replace("~", home, 1))))
        new = [folder for folder in path.parents if not folder.exists()]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self._known.in_this_run(file.text))
        path.chmod(0o755 if file.text.startswith("#!") else 0o644)
        owner = machine.path(home).stat()
        for each in (path, *new):
            os.chown(each, owner.st_uid, owner.st_gid)


def _place_of(page: Page, command: Command, why: str = "") -> str:
    head = f"{page.path}:{command.line + 1}: $ {command.text}"
    return f"{head}\n  {why}" if why else head


def _is_same(before: Done, done: Done) -> bool:
    return before.exit_code == done.exit_code and match(before.lines, done.lines, Known()) is not None


def _is_look(command: Command) -> bool:
    return _LOOKS.match(command.text) is not None and _NOT_A_LOOK.search(command.text) is None


def _is_code_fine(command: Command, done: Done) -> bool:
    is_interrupted = bool(command.expected) and command.expected[-1] == CTRL_C
    return command.is_code_shown or is_interrupted or done.exit_code == command.exit_code
