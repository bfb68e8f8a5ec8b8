"""`gnt-cluster show-ispecs-cmd`: the command line that gives a cluster the limits of this one.

Source: Ganeti's `gnt-cluster show-ispecs-cmd` (recorded).
"""

from collections.abc import Mapping

import attrs
import click

from cli.commands import Command
from cli.connection import ask_luxid
from cli.context import wants_json
from cli.exitcodes import DONE
from cli.screen import say, say_json
from common.wire import structure
from protocol.luxi.cluster import QueryClusterInfo


@attrs.frozen
class _Limits:
    """The parts of the policy that have sizes."""

    minmax: tuple[Mapping[str, Mapping[str, int]], ...]
    std: Mapping[str, int]


@click.command("show-ispecs-cmd", cls=Command, examples=("gnt-cluster show-ispecs-cmd",))
def show_ispecs_cmd() -> int:
    """Tell the command that makes a cluster of Ganeti with the sizes of instances that this one allows.

    Here 'gnt-cluster modify' has these options, and 'gnt-cluster init' has not.
    """
    facts = ask_luxid(QueryClusterInfo())
    policy = structure(
        {name: _object(facts["ipolicy"])[name] for name in ("minmax", "std")}, _Limits, "instance policy"
    )
    ranges = "//".join("/".join(f"{end}:{_sizes(each[end])}" for end in ("min", "max")) for each in policy.minmax)
    words = ["gnt-cluster", "init", "--ipolicy-std-specs", _sizes(policy.std), "--ipolicy-bounds-specs", ranges]
    command = " ".join([*words, str(facts["name"])])
    if wants_json():
        say_json(command)
    else:
        say(command)
    return DONE


def _object(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _sizes(sizes: Mapping[str, int]) -> str:
    return ",".join(f"{name}={sizes[name]}" for name in sorted(sizes))
