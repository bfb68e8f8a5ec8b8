"""`gnt-debug wconfd`: call a method of wconfd by hand.

Source: cli.md 4, "wconfd"; wconfd.md 2.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import attrs
import click
import orjson

import protocol.wconfd
from cli.commands import Command
from cli.connection import ask_wconfd
from cli.context import wants_json
from cli.exitcodes import DONE
from cli.screen import remark, say, say_json
from cli.tables import Column, Layout, say_table
from common.ids import JobId
from common.wire import unstructure
from common.words.times import clock
from protocol.face import requests_of
from protocol.messages import AnyRequest, structure_request
from protocol.wconfd.daemon import ListLockViolations
from protocol.wconfd.locks import Echo, ListAllLocksOwners, ListLocks

_METHOD_COLUMNS: Final = (Column("METHOD"), Column("ARGUMENTS"), Column("WHAT IT DOES"))


@click.command(
    "wconfd",
    cls=Command,
    context_settings={"ignore_unknown_options": True},
    examples=(
        "gnt-debug wconfd",
        "gnt-debug wconfd echo hello",
        "gnt-debug wconfd listlocks 27491",
        """gnt-debug wconfd tryUpdateLocks '["me", "/run/gantry/livelocks/me"]' '[["node/web1", "shared"]]'""",
    ),
)
@click.argument("method", required=False)
@click.argument("words", metavar="[JSON]...", nargs=-1, type=click.UNPROCESSED)
def wconfd(method: str | None, words: Sequence[str]) -> int:
    """Call METHOD with these arguments, each as JSON; without METHOD list all methods.

    Upper and lower case do not matter in METHOD. A word that is not JSON is taken as text. 'listlocks JOB'
    tells the locks of a job, whatever its livelock is.
    """
    if method is None:
        return _tell_methods()
    kind = _method(method)
    values = [_value(word) for word in words] if kind is not Echo else list(words)
    if kind is ListLocks and len(values) == 1 and isinstance(values[0], int):
        answer = _locks_of_job(JobId(values[0]))
    else:
        answer = unstructure(ask_wconfd(structure_request(kind, values)))
    if kind is Echo and not wants_json():
        say(str(answer))
    else:
        say_json(answer)
    return DONE


def _method(name: str) -> type[AnyRequest]:
    """Raises: UsageError: wconfd has no such method."""
    methods = {kind.METHOD.lower(): kind for kind in requests_of(protocol.wconfd)}
    kind = methods.get(name.lower())
    if kind is None:
        # imported late: only an error needs it
        import difflib

        nearest = difflib.get_close_matches(name.lower(), methods, n=1)
        advice = f"did you mean '{methods[nearest[0]].METHOD}'?" if nearest else "'gnt-debug wconfd' lists all"
        raise click.UsageError(f"wconfd has no method '{name}'; {advice}")
    return kind


def _value(word: str) -> object:
    try:
        return orjson.loads(word)
    except orjson.JSONDecodeError:
        return word


def _locks_of_job(job_id: JobId) -> object:
    """The locks of a job in the form of `listLocks`."""
    held = ask_wconfd(ListAllLocksOwners())
    return unstructure([(lock, mode) for lock, owners in held for owner, mode in owners if owner.ident == job_id])


def _tell_methods() -> int:
    if wants_json():
        say_json({kind.METHOD: list(_arguments(kind)) for kind in requests_of(protocol.wconfd)})
        return DONE
    rows = [[kind.METHOD, " ".join(_arguments(kind)), _first_line(kind)] for kind in requests_of(protocol.wconfd)]
    say_table(_METHOD_COLUMNS, rows, Layout())
    return DONE


def _arguments(kind: type[AnyRequest]) -> Iterator[str]:
    """Names in order; optional ones in brackets."""
    for field in attrs.fields(kind):  # type: ignore[arg-type]  # subclasses are attrs classes
        yield field.name if field.default is attrs.NOTHING else f"[{field.name}]"


def _first_line(kind: type[AnyRequest]) -> str:
    # a class without a docstring does what its name says
    own = kind.__dict__.get("__doc__") or ""
    return "" if own.startswith("Method generated") else own.partition("\n")[0].rstrip(".")


# `gnt-debug violations`: changes of the configuration without the locks of what was changed.
#
# Source: DESIGN section 8.


_VIOLATION_COLUMNS: Final = tuple(map(Column, ("AT", "PID", "UID", "METHOD", "CHANGED", "LOCK", "REFUSED")))


@click.command(
    "violations", cls=Command, examples=("gnt-debug violations", "gnt-debug violations --output json | jq .count")
)
def violations() -> int:
    """Show which processes have changed the configuration without the locks of what they changed.

    They are counted from the start of wconfd; the latest 200 are shown. With "require_locks = true" in "[wconfd]" such
    changes are refused.
    """
    found = ask_wconfd(ListLockViolations())
    if wants_json():
        say_json(attrs.asdict(found))
        return DONE
    if not found.count:
        remark("there are none: each change was made under the locks of what it changed")
        return DONE
    if found.count > len(found.latest):
        remark(f"{found.count} since the start of wconfd; these are the latest {len(found.latest)}")
    rows = [
        [clock(each.at), str(each.pid), str(each.uid), each.method, each.changed, each.lock, _yes(each.is_refused)]
        for each in found.latest
    ]
    say_table(_VIOLATION_COLUMNS, rows)
    return DONE


def _yes(truth: bool) -> str:
    return "yes" if truth else "no"
