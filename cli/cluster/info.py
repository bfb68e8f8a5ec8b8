"""`gnt-cluster info`: the parameters of the cluster."""

from collections.abc import Iterator, Mapping
from typing import Final

import click
import orjson

from cli.commands import Command
from cli.connection import ask_luxid
from cli.context import installation, wants_json
from cli.exitcodes import DONE
from cli.screen import say, say_json
from cli.tables import Column, Layout, render
from protocol.luxi.cluster import QueryClusterInfo

_LIMITS: Final = ("max_running_jobs", "max_tracked_jobs", "candidate_pool_size")


@click.command("info", cls=Command, examples=("gnt-cluster info", "gnt-cluster info --output json | jq .master"))
def info() -> int:
    """Tell the parameters of the cluster, a table for each group of them."""
    answer = ask_luxid(QueryClusterInfo())
    if wants_json():
        say_json(answer)
        return DONE
    for place, (title, values) in enumerate(_groups(answer).items()):
        if place:
            say("")
        rows = [[name, _text(value)] for name, value in values.items()]
        for line in render((Column(title), Column("VALUE")), rows, Layout()):
            say(line)
    return DONE


def _groups(answer: Mapping[str, object]) -> Mapping[str, Mapping[str, object]]:
    """Title -> name -> value: single values first, then the limits, then each group of parameters."""
    single = {key: value for key, value in answer.items() if not (value and isinstance(value, dict))}
    limits: dict[str, object] = {key: single.pop(key) for key in _LIMITS if key in single}
    settings = installation().luxid
    limits["luxid.max_queued_jobs"] = settings.max_queued_jobs
    groups = {key: dict(_flat(value)) for key, value in answer.items() if value and isinstance(value, dict)}
    return {"CLUSTER": single, "LIMITS": limits, **{key.upper(): values for key, values in groups.items()}}


def _flat(values: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Values by name; nested names are joined with a dot: `kvm.acpi`."""
    for key, value in values.items():
        if value and isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _text(value: object) -> str:
    if value is None or value in ("", [], {}):
        return ""
    return value if isinstance(value, str) else orjson.dumps(value).decode()
