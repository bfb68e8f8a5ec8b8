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
    r"(list|info|why|output|log|history|batch|locks|status|show|ghosts|cluster|verify|mond|confd)\b"
    r"|gantry (schedule|resource|token|user|access)( \S+)* (list|show)\b|(cat|ls|tail|head|grep|wc|curl)\b"
)
_NOT_A_LOOK: Final = re.compile(r"[;&|>]|--(wait|follow)\b| -[fw]\b")
_LOOK_FOR_S: Final = 60.0
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
        head = f"{self.page.path}:{self.command.line + 1}: $ {self.command.text}"
        if not _is_code_fine(self.command, self.seen):
            head += f"\n  exit code {self.seen.exit_code}, the page says {self.command.exit_code}"
        diff = difflib.unified_diff(self.command.expected, self.merged, n=2, lineterm="")
        return "\n".join([head, *(f"  {line}" for line in list(diff)[2:])])


@attrs.frozen
class Result:
    page: Page
    differences: tuple[Difference, ...]
    seconds: float


def run_page(page: Page, environment: Environment, *, is_accepting: bool = False) -> Result:
    """Run all its steps.

    Args: is_accepting: the page does not know yet what there is to see.
    Raises: WrongPage: it cannot go on.
    """
    began = time.monotonic()
    with ExitStack() as ending:
        run = _Run(page, environment, ending, is_accepting=is_accepting)
        return Result(page, run.differences(), time.monotonic() - began)


class _Run:
    """A page on its way."""

    def __init__(self, page: Page, environment: Environment, ending: ExitStack, *, is_accepting: bool) -> None:
        self._page = page
        self._environment = environment
        self._ending = ending
        self._is_accepting = is_accepting
        # by machine and user
        self._sessions: dict[tuple[str, str], Session] = {}
        self._known = Known()
        # where the last command was
        self._last = self._place(Prompt())

    def differences(self) -> tuple[Difference, ...]:
        found = []
        for step in self._page.steps:
            if isinstance(step, File):
                self._write(step)
            elif (difference := self._carry_out(step)) is not None:
                found.append(difference)
        return tuple(found)

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
        deadline = time.monotonic() + _LOOK_FOR_S
        before = None
        while True:
            try:
                done = self._session(command.prompt).run(text, until_interrupted=interruption)
            except Stuck as stuck:
                raise WrongPage(f"{self._page.path}:{command.line + 1}: $ {command.text}\n  {stuck}") from stuck
            is_settled = self._is_accepting and before is not None and _is_same(before, done)
            is_fine = match(expected, done.lines, self._known) is not None and _is_code_fine(command, done)
            if is_fine or is_settled or not _is_look(command) or time.monotonic() > deadline:
                return done
            before = done
            time.sleep(_PAUSE_S)

    def _interruption(self, expected: Sequence[str]) -> Interruption:
        def is_enough(seen: Sequence[str]) -> bool:
            return bool(expected) and match(expected, seen, self._known) is not None

        return Interruption(is_enough, _FOLLOW_S if self._is_accepting else _LOOK_FOR_S)

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


def _is_same(before: Done, done: Done) -> bool:
    return before.exit_code == done.exit_code and match(before.lines, done.lines, Known()) is not None


def _is_look(command: Command) -> bool:
    return _LOOKS.match(command.text) is not None and _NOT_A_LOOK.search(command.text) is None


def _is_code_fine(command: Command, done: Done) -> bool:
    is_interrupted = bool(command.expected) and command.expected[-1] == CTRL_C
    return command.is_code_shown or is_interrupted or done.exit_code == command.exit_code
