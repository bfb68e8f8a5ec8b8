"""Warn of filters that can be read and are hardly meant so."""

from cli.screen import warn
from common.words.filters.filtertext import starred


def warn_of_stars(text: str) -> None:
    """Warn of `name=foo*`: `=` compares whole values, `=*` matches patterns.

    Args: text: a filter that can be read.
    """
    for field, operator, value in starred(text):
        sign = "=" if operator == "=*" else "!="
        warn(
            f"'*' stands for itself in {field}{sign}{value}: {sign} compares whole values; "
            f"for a pattern write: {field} {operator} '{value}'"
        )
