"""Which ended jobs a verb is about: options, and what they ask of luxid."""

import time
from collections.abc import Sequence
from typing import Final, TypedDict

import click

from cli.choosing.filtercompletion import complete_label, complete_name, complete_user
from cli.choosing.filterwarnings import warn_of_stars
from cli.options import F, with_options
from common.errors import InvalidRequest
from common.queue.jobs import JobState
from common.words.filters.filtertext import Expression, glob_regex
from common.words.filters.jobfilter import all_of
from common.words.filters.pastfilter import past_filter
from common.words.instants import Toward, parse_instant
from protocol.luxi.history import Grouping, Past, Sorting

# what `--status` takes -> state
_STATUSES: Final = {
    "success": JobState.SUCCESS,
    "error": JobState.ERROR,
    "failed": JobState.ERROR,
    "canceled": JobState.CANCELED,
}
_LABEL: Final = "label:"
SORTINGS: Final = tuple(sorting.value for sorting in Sorting)


class PastOptions(TypedDict):
    """What `past_options` pass to a verb."""

    since: str | None
    until: str | None
    statuses: Sequence[str]
    names: Sequence[str]
    labels: Sequence[str]
    user: str | None
    text: str | None


def past_options(function: F) -> F:
    """The options that choose ended jobs."""
    return with_options(
        function,
        click.option("--since", metavar="TIME", help="Ended at or after: yesterday, 2h (ago), '2026-11-21 02:00'."),
        click.option("--until", metavar="TIME", help="Ended before."),
        click.option(
            "--status", "statuses", multiple=True, type=click.Choice([*_STATUSES]), help="Ended as; repeatable."
        ),
        click.option(
            "--name",
            "names",
            metavar="GLOB",
            multiple=True,
            shell_complete=complete_name,
            help="Named so: 'backup-*'; repeatable.",
        ),
        click.option(
            "--label",
            "labels",
            metavar="KEY[=VALUE]",
            multiple=True,
            shell_complete=complete_label,
            help="With this label; repeatable.",
        ),
        click.option("--user", metavar="LOGIN", shell_complete=complete_user, help="Submitted by this user."),
        click.option(
            "--filter", "--where", "text", metavar="FILTER", help="For which this holds: 'wait > 10m & tries > 1'."
        ),
    )


def read_choice(chosen: PastOptions) -> Past:
    """What the options ask. Raises: InvalidRequest: a time or the filter is malformed."""
    now = time.time()
    parts: list[Expression] = []
    if chosen["names"]:
        named: list[Expression] = [["=~", "name", glob_regex(name)] for name in chosen["names"]]
        parts.append(["|", *named])
    parts += [_label(label) for label in chosen["labels"]]
    if chosen["user"] is not None:
        parts.append(["==", "user", chosen["user"]])
    if chosen["text"] is not None:
        parts.append(past_filter(chosen["text"], now, None))
        warn_of_stars(chosen["text"])
    return Past(
        since=_instant(chosen["since"], now),
        until=_instant(chosen["until"], now),
        states=tuple(dict.fromkeys(_STATUSES[name] for name in chosen["statuses"])),
        filter=all_of(parts),
    )


def grouping_of(by: str) -> tuple[Grouping, str]:
    """What `--by` says: a grouping, and the key of a label. Raises: InvalidRequest."""
    if by.startswith(_LABEL):
        return Grouping.LABEL, by.removeprefix(_LABEL)
    try:
        return Grouping(by), ""
    except ValueError:
        known = ", ".join(each.value for each in Grouping if each is not Grouping.LABEL)
        raise InvalidRequest(f"jobs are not summed up by '{by}'; write {known} or label:KEY") from None


def _instant(text: str | None, now: float) -> float | None:
    return None if text is None else parse_instant(text, now, None, Toward.PAST)


def _label(text: str) -> Expression:
    key, equals, value = text.partition("=")
    if not key:
        raise InvalidRequest(f"'{text}' is no label; write KEY=VALUE, or KEY for any value")
    # any text has a place for the empty pattern
    return ["==", f"label.{key}", value] if equals else ["=~", f"label.{key}", ""]
