"""Completion in the shell: the scripts, and the values that only the daemons know.

A key press must not wait: a daemon that does not reply at once contributes no values.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final, TypeVar

import click
from click.shell_completion import get_completion_class

from cli.commands import Command
from cli.connection import open_luxid, open_wconfd
from cli.context import paths
from cli.exitcodes import DONE
from cli.screen import say
from cli.shells import use_our_scripts
from common.errors import GantryError
from common.locks import LockLevel, group_lock
from common.nodes.nodeplace import candidate_names
from common.objects.kinds import QueryKind
from common.wire import structure
from protocol.luxi.queries import Page, Query, QueryJobs
from protocol.luxi.queue import ListSchedules, ReadResourceUse
from protocol.messages import Request
from protocol.wconfd.locks import ListAllLocks

PROGRAMS: Final = (
    "gantry",
    "gnt-job",
    "gnt-filter",
    "gnt-debug",
    "gnt-node",
    "gnt-group",
    "gnt-network",
    "gnt-cluster",
)
SHELLS: Final = ("bash", "zsh", "fish")
_PATIENCE_S: Final = 0.5
# jobs whose values are offered
_NEWEST: Final = 500

R = TypeVar("R")
# values, each with a description
_Offers = Iterable[tuple[str, str]]


@click.command(
    "completion",
    cls=Command,
    examples=(
        'eval "$(gantry completion bash)"       # in ~/.bashrc',
        'eval "$(gantry completion zsh)"        # in ~/.zshrc',
        "gantry completion fish > ~/.config/fish/conf.d/gantry.fish",
    ),
)
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> int:
    """Print the script that completes all programs in this shell."""
    for program in PROGRAMS:
        say(completion_script(shell, program))
    return DONE


def completion_script(shell: str, program: str) -> str:
    """The script that completes one program. Args: shell: of `SHELLS`."""
    use_our_scripts()
    kind = get_completion_class(shell)
    assert kind is not None
    variable = f"_{program.replace('-', '_')}_COMPLETE".upper()
    script = kind(click.Command(program), {}, program, variable)
    return script.source_template % script.source_vars()


def _ask(request: Request[R]) -> R:
    with open_luxid() as client:
        return client.call(request, timeout_s=_PATIENCE_S)


def _jobs(_: str) -> _Offers:
    """The newest first, each with its summary."""
    rows = _ask(QueryJobs(None, ("id", "status", "summary", "name")))
    for job_id, status, summary, name in reversed(rows):
        text = name or ",".join(structure(summary, tuple[str, ...], "summary"))
        yield str(job_id), f"{status} {text}"


def _schedules(_: str) -> _Offers:
    found = (view.schedule for view in _ask(ListSchedules(0)))
    return [(each.name, each.cron or f"every {each.every_s:g} s") for each in found]


def _names(kind: QueryKind, _: str) -> _Offers:
    return [(str(name), "") for (name,) in _ask(Query(kind, ("name",), None)).values()]


def _resources(_: str) -> _Offers:
    return [(each.resource.key, "") for each in _ask(ReadResourceUse())]


def _candidates(_: str) -> _Offers:
    """By the files of this node: where they are needed there may be no master."""
    return [(name, "") for name in candidate_names(paths())]


def _rules(_: str) -> _Offers:
    found = _ask(Query(QueryKind.FILTER, ("uuid", "action"), None))
    return [(str(uuid), str(action)) for uuid, action in found.values()]


def _locks(incomplete: str) -> _Offers:
    """Locks that are held now, the group locks, and the levels that begin names."""
    level, slash, _ = incomplete.partition("/")
    if not slash:
        return [(f"{each.value}/", "") for each in LockLevel if each is not LockLevel.CONFIG]
    groups = [(str(group_lock(each)), "") for each in LockLevel if each.value == level != "config"]
    try:
        with open_wconfd() as client:
            held = client.call(ListAllLocks(), timeout_s=_PATIENCE_S)
    except (GantryError, OSError):
        held = ()
    return [*((str(lock), "") for lock in held if not lock.is_group), *groups]


# what is completed -> the values for what was typed, each with a description
SOURCES: Final[Mapping[str, Callable[[str], _Offers]]] = {
    "jobs": _jobs,
    "schedules": _schedules,
    "nodes": partial(_names, QueryKind.NODE),
    "groups": partial(_names, QueryKind.GROUP),
    "networks": partial(_names, QueryKind.NETWORK),
    "resources": _resources,
    "candidates": _candidates,
    "rules": _rules,
    "locks": _locks,
}


def seen_values(field: str) -> list[str]:
    """The values that a field of luxid has for the newest jobs, by their names; of labels the keys."""
    found = [value for (value,) in _ask(Query(QueryKind.JOB, (field,), None, Page(_NEWEST))).values()]
    texts = (text for value in found for text in (value if isinstance(value, list | dict) else (value,)))
    return sorted({str(text) for text in texts if text})
