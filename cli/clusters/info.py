"""`gnt-cluster info`: the parameters of the cluster."""

from collections.abc import Iterator, Mapping
from typing import Any

import click
import orjson

from cli.commands import Command
from cli.connection import ask_luxid
from cli.context import wants_json
from cli.run import DONE
from cli.screen import one_line, say, say_json
from protocol.luxi import QueryClusterInfo


@click.command("info", cls=Command, examples=("gnt-cluster info", "gnt-cluster info --output json | jq .master"))
def info() -> int:
    """Tell the parameters of the cluster, one a line."""
    answer = ask_luxid(QueryClusterInfo())
    if wants_json():
        say_json(answer)
        return DONE
    for line in _lines(answer):
        say(one_line(line))
    return DONE


def _lines(values: Mapping[str, Any], indent: str = "") -> Iterator[str]:
    for key, value in values.items():
        if isinstance(value, dict) and value:
            yield f"{indent}{key}:"
            yield from _lines(value, f"{indent}  ")
        else:
            yield f"{indent}{key}: {_text(value)}"


def _text(value: Any) -> str:
    if value is None or value in ("", [], {}):
        return "-"
    return value if isinstance(value, str) else orjson.dumps(value).decode()
