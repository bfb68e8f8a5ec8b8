"""The common options as given to the running command: installation, output form, colour."""

import os
import sys
from collections.abc import MutableMapping
from pathlib import Path
from typing import Final

import click

from common.errors import GantryError, InvalidRequest, Unavailable
from common.paths import Paths
from common.settings import Settings
from common.settingsfile import find_installation, named_root, read_despite_faults

# keys of click's context under which the common options store their values
ROOT: Final = "gantry.root"
OUTPUT: Final = "gantry.output"
NO_COLOR: Final = "gantry.no_color"
NO_PAGER: Final = "gantry.no_pager"
# what could be read of settings with faults, see `use_what_can_be_read`
_READABLE: Final = "gantry.readable"
# key under which a verb says that it is about this machine, whatever cluster a variable names
OF_MACHINE: Final = "gantry.of_machine"
# option that names the cluster of another machine -> its key
REMOTE: Final = {
    "--remote": "gantry.remote",
    "--ca": "gantry.remote.ca",
    "--fingerprint": "gantry.remote.fingerprint",
    "--token-file": "gantry.remote.token_file",
}


def remember(meta: MutableMapping[str, object], key: str, value: object) -> None:
    """Keep the value of an option, if it is given.

    A program and its verb share `meta`: an option that is not given must not overwrite the other's.
    """
    if value is not None:
        meta[key] = value


def given_root() -> Path | None:
    """The folder named by `--root`; None if it was left out."""
    root = click.get_current_context().meta.get(ROOT)
    return root if isinstance(root, Path) else None


def effective_root() -> Path | None:
    """The folder named by `--root` or $GANTRY_ROOT, absolute; None for the installation of the system."""
    return named_root(given_root())


def installation() -> Settings:
    """The settings of the chosen installation.

    Raises: NotFound, InvalidRequest, Unavailable, OSError: as `find_installation`.
    """
    readable = click.get_current_context().meta.get(_READABLE)
    return readable if isinstance(readable, Settings) else find_installation(given_root())


def use_what_can_be_read() -> GantryError | None:
    """Let `installation` return what can be read of a settings file that has faults; return what is wrong with it.

    Raises: NotFound, OSError: as `installation`. InvalidRequest: not even the folders can be known.
    """
    try:
        find_installation(given_root())
    except (InvalidRequest, Unavailable) as fault:
        click.get_current_context().meta[_READABLE] = read_despite_faults(given_root())
        return fault
    return None


def paths() -> Paths:
    """Raises: as `installation`."""
    return installation().paths


def wants_json() -> bool:
    return click.get_current_context().meta.get(OUTPUT) == "json"


def uses_color() -> bool:
    """Whether standard output is a terminal that may be coloured."""
    is_forbidden = bool(click.get_current_context().meta.get(NO_COLOR) or os.environ.get("NO_COLOR"))
    return not is_forbidden and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def command_line(program: str, *words: object) -> str:
    """A command for the user to type; it names the same cluster as this command did."""
    root, meta = given_root(), click.get_current_context().meta
    place = [] if root is None else ["--root", _quoted(root)]
    place += [word for option, key in REMOTE.items() if key in meta for word in (option, _quoted(meta[key]))]
    return " ".join([program, *place, *map(str, words)])


def up_command() -> str:
    """The command that starts the daemons of the chosen installation."""
    # imported late: only hints need it
    from common.installation import up_command

    return up_command(effective_root())


def _quoted(path: object) -> str:
    # imported late: only hints need it
    import shlex

    return shlex.quote(str(path))


def job_program() -> str:
    """How the user calls the group of jobs: `gnt-job` or `gantry job`, after the way this command was called."""
    return "gantry job" if program().split()[0] == "gantry" else "gnt-job"


def program() -> str:
    """How the user called the group of the running verb: `gnt-job`, or `gantry job`."""
    ctx = click.get_current_context()
    while ctx.parent is not None and not isinstance(ctx.command, click.Group):
        ctx = ctx.parent
    # click puts only names into the path of a command whose groups take no arguments
    return ctx.command_path
