"""The objects that a list shows: names, names with `*` and `?`, or one filter.

Source: cli.md 1.4.
"""

from collections.abc import Sequence

import click

from cli.choosing.filterwarnings import warn_of_stars
from common.query.qlang import Expression as QueryExpression
from common.words.filters.filtertext import Expression, glob_regex, parse_filter
from common.words.filters.jobfilter import is_filter


def object_filter(words: Sequence[str], *, is_filtering: bool) -> QueryExpression | None:
    """The condition for the objects that these arguments name; None: all.

    Args: is_filtering: whether the only argument is a filter, even if it looks like a name.
    Raises: InvalidRequest: the filter cannot be read. UsageError: several arguments where one filter is wanted.
    """
    if is_filtering and len(words) != 1:
        raise click.UsageError(f"--filter takes one argument, got {len(words)}; put the filter into quotes")
    if not words:
        return None
    if len(words) == 1 and (is_filtering or is_filter(words[0])):
        condition = parse_filter(words[0])
        warn_of_stars(words[0])
        return QueryExpression.from_wire(condition)
    named: list[Expression] = [_named(word) for word in words]
    return QueryExpression.from_wire(["|", *named])


def _named(word: str) -> Expression:
    return ["=~", "name", glob_regex(word)] if "*" in word or "?" in word else ["==", "name", word]
