"""Values of options of several programs: yes or no, and named values.

Source: cli.md 1.
"""

from collections.abc import Mapping
from typing import Final

import click


class YesNoType(click.ParamType):  # type: ignore[type-arg]  # generic in newer releases of click only
    """`yes` or `no`, also `true` or `false`."""

    name = "yes|no"

    def convert(self, value: str | bool, param: click.Parameter | None, ctx: click.Context | None) -> bool:
        if isinstance(value, bool):
            return value
        if value.lower() in ("yes", "true"):
            return True
        if value.lower() in ("no", "false"):
            return False
        self.fail(f"'{value}' is neither yes nor no", param, ctx)

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        return "yes|no"


class KeyValuesType(click.ParamType):  # type: ignore[type-arg]  # as above
    """`name=value,name=value`."""

    name = "name=value,..."

    def convert(
        self, value: str | Mapping[str, str], param: click.Parameter | None, ctx: click.Context | None
    ) -> Mapping[str, str]:
        if not isinstance(value, str):
            return value
        pairs = [part.partition("=") for part in value.split(",") if part]
        for name, sign, _ in pairs:
            if not (name and sign):
                self.fail(f"'{name}' has no value; write name=value, several with commas", param, ctx)
        return {name: text for name, _, text in pairs}

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        return "NAME=VALUE,..."


YES_NO: Final = YesNoType()
KEY_VALUES: Final = KeyValuesType()
