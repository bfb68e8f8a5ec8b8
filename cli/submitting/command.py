"""The options of a command, for verbs that submit one: its locks, input, surroundings and limits."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import attrs
import click

from cli.options import POSITIVE_DURATION, F, gathered
from cli.submitting.arguments import CPUS, LOCK, SIZE, VARIABLE, check_text, lock_modes, read_standard_input
from common.words.typed import NamedLock


@attrs.frozen
class CommandOptions:
    """What a command is to have."""

    locks: Sequence[NamedLock]
    timeout: float | None
    cwd: Path | None
    stdin_from: Path | None
    stdin_text: str | None
    memory: int | None
    cpus: float | None
    env: Sequence[tuple[str, str]]
    shell: bool
    user: str | None

    def parameters(self, words: Sequence[str], elsewhere: str | None) -> dict[str, object]:
        """The parameters of OP_RUN_COMMAND; None where nothing is said.

        Args: elsewhere: where the command runs, if not on this machine.
        Raises: click.UsageError: the options do not fit together, or a path depends on a folder of this machine.
            InvalidRequest: standard input is to be read, and cannot be.
        """
        stdin_from, stdin_text = self.stdin_from, self.stdin_text
        if stdin_from is not None and stdin_text is not None:
            raise click.UsageError("--stdin and --stdin-text exclude each other; give one of them")
        if str(stdin_from) == "-":
            stdin_from, stdin_text = None, read_standard_input()
        check_text(*words, *(text for variable in self.env for text in variable), str(self.cwd), str(stdin_from))
        if self.user == "":
            raise click.UsageError("--user '' names nobody; leave it out, or write the name of a user")
        return {
            "OP_ID": "OP_RUN_COMMAND",
            "argv": list(words),
            "cwd": _absolute("--cwd", self.cwd, elsewhere),
            "shell": self.shell,
            "env": dict(self.env),
            "locks": lock_modes(self.locks),
            "timeout": self.timeout,
            "user": self.user,
            "stdin_path": _absolute("--stdin", stdin_from, elsewhere),
            "stdin_text": stdin_text,
            "memory": self.memory,
            "cpus": self.cpus,
        }


def command_options(cwd: str) -> Callable[[F], F]:
    """`--lock`, `--timeout`, `--cwd`, `--stdin`, `--memory` and others: the verb gets its `command`.

    Args: cwd: which folder it is, if none is named.
    """
    return gathered(
        "command",
        CommandOptions,
        click.option(
            "--lock", "locks", type=LOCK, multiple=True, help="Hold this lock, NAME[:shared|exclusive]; repeatable."
        ),
        click.option("--timeout", type=POSITIVE_DURATION, help="End the command after this time: 90, 90s, 5m, 2h."),
        click.option(
            "--cwd",
            metavar="DIR",
            type=click.Path(file_okay=False, path_type=Path),
            help=f"Working directory; {cwd}.",
        ),
        click.option(
            "--stdin",
            "stdin_from",
            metavar="FILE|-",
            type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
            help="Input of the command: FILE as it is when the command starts, or (-) all of standard input here.",
        ),
        click.option("--stdin-text", metavar="TEXT", help="Input of the command: this text."),
        click.option("--memory", type=SIZE, help="Memory limit of all its processes together: 512M, 2G."),
        click.option("--cpus", type=CPUS, help="Limit of processors at once: 2, 0.5."),
        click.option("--env", type=VARIABLE, multiple=True, help="Set a variable, NAME=VALUE; repeatable."),
        click.option("--shell", is_flag=True, help="Join the words by blanks and give them to /bin/sh."),
        click.option("--user", metavar="NAME", help="Run it as this user; needs a launcher, or daemons of root."),
    )


def _absolute(option: str, path: Path | None, elsewhere: str | None) -> str | None:
    """The path for the opcode, which has none that depend on the current folder."""
    if path is None:
        return None
    if elsewhere is not None and not path.is_absolute():
        raise click.UsageError(f"{option} '{path}' is on {elsewhere}; write a path that begins with /")
    return os.path.abspath(path)
