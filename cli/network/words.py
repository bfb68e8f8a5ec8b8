"""Values of options of several verbs of `gnt-network`.

Source: cli.md 1.
"""

from collections.abc import Sequence
from typing import Final

import click


class WordsType(click.ParamType):  # type: ignore[type-arg]  # generic in newer releases of click only
    """Several words with commas between."""

    name = "words"

    def __init__(self, metavar: str) -> None:
        self._metavar = metavar

    def convert(
        self, value: str | Sequence[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> Sequence[str]:
        return [word for word in value.split(",") if word] if isinstance(value, str) else value

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        return self._metavar


ADDRESSES: Final = WordsType("IP,...")
TAGS: Final = WordsType("TAG,...")
