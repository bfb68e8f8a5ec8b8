"""The options that name the cluster of another machine, for programs whose verbs work there, too.

Source: DESIGN section 15.
"""

import os
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from cli.context import OF_MACHINE, REMOTE, given_root, remember
from cli.screen import warn
from common.errors import InvalidRequest

if TYPE_CHECKING:
    # only a command for another machine imports it
    from protocol.rapid.clients.place import Place

# keys of click's context: whether the program's verbs work on other machines, too; and the place that was named
_KNOWN: Final = "gantry.remote.known"
_PLACE: Final = "gantry.remote.place"
_VARIABLE: Final = "GANTRY_REMOTE"


def remote_options(is_hidden: bool) -> list[click.Parameter]:
    """`--remote`, `--ca`, `--fingerprint` and `--token-file`; hidden where the help of the program has them."""
    return [
        _option("--remote", "URL", "The cluster of another machine, over HTTP; else $GANTRY_REMOTE.", is_hidden),
        _option("--ca", "FILE", "Trust the certificates in FILE for --remote; else $GANTRY_CA.", is_hidden),
        _option("--fingerprint", "SHA256", "Trust this certificate only; else $GANTRY_FINGERPRINT.", is_hidden),
        _option("--token-file", "FILE", "The token for --remote is in FILE; else $GANTRY_TOKEN.", is_hidden),
    ]


def _option(name: str, metavar: str, text: str, is_hidden: bool) -> click.Option:
    return click.Option(
        [name],
        metavar=metavar,
        help=text,
        hidden=is_hidden,
        expose_value=False,
        callback=lambda ctx, _, value: _remember(ctx.meta, REMOTE[name], value),
    )


def _remember(meta: MutableMapping[str, object], key: str, value: object) -> None:
    meta[_KNOWN] = True
    remember(meta, key, value)


def is_remote() -> bool:
    """Whether the running command is for the cluster of another machine."""
    return remote_address() is not None


def remote_address() -> str | None:
    """The URL that names the cluster of another machine; None: the command is for this machine."""
    ctx = click.get_current_context()
    if not ctx.meta.get(_KNOWN):
        # this program works on this machine only
        return None
    given = ctx.meta.get(REMOTE["--remote"])
    if given is None:
        return None if given_root() is not None else os.environ.get(_VARIABLE) or None
    if given_root() is not None:
        raise click.UsageError("--remote and --root exclude each other: a cluster is here or elsewhere")
    return str(given)


def refuse_other_cluster() -> None:
    """Refuse to work on the cluster of this machine where the user may mean another.

    Raises: UsageError: a variable names another one, which this program cannot reach.
    """
    ctx = click.get_current_context()
    address = os.environ.get(_VARIABLE)
    if not address or ctx.meta.get(_KNOWN) or ctx.meta.get(OF_MACHINE) or given_root() is not None:
        return
    raise click.UsageError(
        f"'{ctx.command_path}' works only on a machine of the cluster, and ${_VARIABLE} names {address:.80}; "
        f"for the cluster of this machine unset it: env -u {_VARIABLE} {ctx.command_path} ..."
    )


def remote_place() -> "Place | None":
    """The server of the cluster of another machine, with all that is needed to call it; None: the cluster is here.

    Raises: InvalidRequest: an option or variable cannot be used. UsageError.
    """
    address, meta = remote_address(), click.get_current_context().meta
    if address is None:
        return None
    if _PLACE not in meta:
        # once, as it may warn
        meta[_PLACE] = _read_place(address, meta)
    place: Place = meta[_PLACE]
    return place


def _read_place(address: str, meta: Mapping[str, object]) -> "Place":
    from protocol.rapid.clients.place import CA_VARIABLE, FINGERPRINT_VARIABLE, TOKEN_VARIABLE, Place

    environment = os.environ
    token_file = meta.get(REMOTE["--token-file"])
    place = Place.at(
        address,
        token=environment.get(TOKEN_VARIABLE) if token_file is None else _read_token(Path(str(token_file))),
        ca=str(meta.get(REMOTE["--ca"]) or environment.get(CA_VARIABLE) or ""),
        fingerprint=str(meta.get(REMOTE["--fingerprint"]) or environment.get(FINGERPRINT_VARIABLE) or ""),
    )
    if (user := place.credentials.user) is not None:
        raise InvalidRequest(
            f"only a token counts there, no password of '{user}'; 'gantry token create' makes one there: leave "
            "the user out of the address, and give --token-file FILE, or $GANTRY_TOKEN"
        )
    return place


def _read_token(path: Path) -> str:
    """The first line of a file. Raises: InvalidRequest, OSError: it cannot be read, or is empty."""
    if path.stat().st_mode & 0o077:
        warn(f"others may read '{path}', which has a token; take their rights away: chmod 600 {path}")
    try:
        lines = path.read_text().splitlines()
    except UnicodeDecodeError:
        lines = []
    token = lines[0].strip() if lines else ""
    if not (token and token.isascii() and token.isprintable()):
        raise InvalidRequest(f"'{path}' has no token in its first line")
    return token
