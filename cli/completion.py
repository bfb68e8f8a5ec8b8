"""Completion in the shell: the scripts, and the values that only the daemons know.

A key press must not wait: a daemon that does not reply at once contributes no values.
"""

from collections.abc import Callable
from typing import Final

import click
from click.shell_completion import CompletionItem, get_completion_class

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
_MOST_ITEMS: Final = 200
# failures that contribute no values; options that exclude each other are told when the command runs
_NO_VALUES: Final = (GantryError, OSError, click.ClickException)
# jobs whose values are offered
_NEWEST: Final = 500


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


def complete_job_ids(incomplete: str) -> list[CompletionItem]:
    """The newest jobs whose ids begin with the typed text, each with its summary."""
    return _quietly(lambda: _job_items(incomplete))


def _job_items(incomplete: str) -> list[CompletionItem]:
    with open_luxid() as client:
        rows = client.call(QueryJobs(None, ("id", "status", "summary", "name")), timeout_s=_PATIENCE_S)
    found = [row for row in reversed(rows) if str(row[0]).startswith(incomplete)][:_MOST_ITEMS]
    summaries = structure([row[2] for row in found], tuple[tuple[str, ...], ...], "summaries")
    texts = [str(row[3] or ",".join(summary)) for row, summary in zip(found, summaries, strict=True)]
    return [CompletionItem(str(row[0]), help=f"{row[1]} {text}") for row, text in zip(found, texts, strict=True)]


def complete_schedules(incomplete: str) -> list[CompletionItem]:
    """The names of schedules that begin with the typed text, each with its words."""
    return _quietly(lambda: _schedule_items(incomplete))


def _schedule_items(incomplete: str) -> list[CompletionItem]:
    with open_luxid() as client:
        found = [view.schedule for view in client.call(ListSchedules(0), timeout_s=_PATIENCE_S)]
    named = [each for each in found if each.name.startswith(incomplete)][:_MOST_ITEMS]
    return [CompletionItem(each.name, help=each.cron or f"every {each.every_s:g} s") for each in named]


def complete_names(kind: QueryKind, incomplete: str) -> list[CompletionItem]:
    """The names of objects of this kind that begin with the typed text."""
    return _quietly(lambda: _name_items(kind, incomplete))


def _name_items(kind: QueryKind, incomplete: str) -> list[CompletionItem]:
    with open_luxid() as client:
        found = client.call(Query(kind, ("name",), None), timeout_s=_PATIENCE_S)
    names = [str(name) for (name,) in found.values()]
    return [CompletionItem(name) for name in names if name.startswith(incomplete)][:_MOST_ITEMS]


def complete_resources(incomplete: str) -> list[CompletionItem]:
    """The names of resources that begin with the typed text: `licences`, `web1:memory`."""
    return _quietly(lambda: _resource_items(incomplete))


def _resource_items(incomplete: str) -> list[CompletionItem]:
    with open_luxid() as client:
        found = client.call(ReadResourceUse(), timeout_s=_PATIENCE_S)
    names = [each.resource.key for each in found]
    return [CompletionItem(name) for name in names if name.startswith(incomplete)][:_MOST_ITEMS]


def seen_values(field: str) -> list[str]:
    """The values that a field of luxid has for the newest jobs, by their names; of labels the keys."""
    try:
        with open_luxid() as client:
            query = Query(QueryKind.JOB, (field,), None, Page(_NEWEST))
            found = [value for (value,) in client.call(query, timeout_s=_PATIENCE_S).values()]
    except _NO_VALUES:
        return []
    texts = (text for value in found for text in (value if isinstance(value, list | dict) else (value,)))
    return sorted({str(text) for text in texts if text})[:_MOST_ITEMS]


def complete_candidates(incomplete: str) -> list[CompletionItem]:
    """The master candidates whose names begin with the typed text; no daemon is asked."""
    return _quietly(
        lambda: [CompletionItem(name) for name in candidate_names(paths()) if name.startswith(incomplete)][:_MOST_ITEMS]
    )


def complete_rules(incomplete: str) -> list[CompletionItem]:
    """The UUIDs of filter rules that begin with the typed text, each with its action."""
    return _quietly(lambda: _rule_items(incomplete))


def _rule_items(incomplete: str) -> list[CompletionItem]:
    with open_luxid() as client:
        found = client.call(Query(QueryKind.FILTER, ("uuid", "action"), None), timeout_s=_PATIENCE_S)
    rules = [(str(uuid), str(action)) for uuid, action in found.values()]
    return [CompletionItem(uuid, help=action) for uuid, action in rules if uuid.startswith(incomplete)][:_MOST_ITEMS]


def complete_locks(incomplete: str) -> list[CompletionItem]:
    """Locks that are held now, the group locks, and the levels that begin names."""
    level, slash, _ = incomplete.partition("/")
    if not slash:
        levels = [each for each in LockLevel if each is not LockLevel.CONFIG and each.value.startswith(level)]
        return [CompletionItem(f"{each.value}/", type="nospace") for each in levels]
    held = _quietly(_held_locks)
    groups = [CompletionItem(str(group_lock(each))) for each in LockLevel if each.value == level != "config"]
    return [item for item in (*held, *groups) if item.value.startswith(incomplete)][:_MOST_ITEMS]


def _held_locks() -> list[CompletionItem]:
    with open_wconfd() as client:
        locks = client.call(ListAllLocks(), timeout_s=_PATIENCE_S)
    return [CompletionItem(str(lock)) for lock in locks if not lock.is_group]


def _quietly(items: Callable[[], list[CompletionItem]]) -> list[CompletionItem]:
    try:
        return items()
    except _NO_VALUES:
        return []
