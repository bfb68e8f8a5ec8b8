"""`gnt-debug simulate`: run a load in virtual time through luxid's core.

The command line does not import daemons, so it becomes the program that has the core, with the same arguments.
"""

import os
import sys
from pathlib import Path
from typing import Final, NoReturn

import click

from cli.commands import Command
from cli.context import given_root, wants_json

_MODULE: Final = "daemons.luxid.simulate.program"
_COUNT: Final = click.IntRange(min=1)
_FILE: Final = click.Path(dir_okay=False, path_type=Path)
# the simulation itself checks whether the file is readable, as for every file
_INPUT: Final = click.Path(readable=False, path_type=Path)


@click.command(
    "simulate",
    cls=Command,
    examples=(
        "gnt-debug simulate --generate hotspot --seed 7",
        "gnt-debug simulate --export trace.jsonl",
        "gnt-debug simulate trace.jsonl --ticks 30 --ticks 120 --plot waits.png",
        "gnt-debug simulate trace.jsonl --resource licences=2 --resource web1:gpus=2",
    ),
)
@click.option(
    "--generate", type=click.Choice(["mixed", "hotspot", "independent"]), help="Draw a load instead of reading one."
)
@click.option("--export", type=_FILE, metavar="FILE", help="Write the trace of the installation's jobs.")
@click.option("--jobs", type=_COUNT, help="How many to generate (2000).")
@click.option("--seed", type=int, help="Seed of the generator (1).")
@click.option("--slots", type=_COUNT, help="Jobs that run at once (the setting max_running_jobs).")
@click.option("--ticks", type=_COUNT, multiple=True, metavar="K", help="A K to compare; several times (5, 30, 120).")
@click.option(
    "--resource", "resources", multiple=True, metavar="NAME=TOTAL", help="Units that there are; several times."
)
@click.option("--plot", type=_FILE, metavar="FILE", help="Draw the waits as PNG; needs matplotlib.")
@click.argument("trace", metavar="[TRACE]", required=False, type=_INPUT)
def simulate(trace: Path | None, ticks: tuple[int, ...], resources: tuple[str, ...], **options: object) -> NoReturn:
    """Run a trace of jobs in virtual time, and compare how long jobs wait under several policies.

    A trace has one JSON object per line: arrival and duration in seconds, priority, and locks as in
    {"node/web1": "exclusive"}. STARVATION is the longest wait divided by that of first come. BLOCKED is the time that
    jobs spent in a slot while they waited for locks, and SHARE its share of all time in slots.
    """
    if sum(each is not None for each in (trace, options["generate"], options["export"])) != 1:
        raise click.UsageError("give one of TRACE, --generate and --export")
    words = [f"--{name}={value}" for name, value in options.items() if value is not None]
    words += [f"--ticks={each}" for each in ticks]
    words += [f"--resource={each}" for each in resources]
    words += ["--output=json"] if wants_json() else []
    words += [f"--root={root}"] if (root := given_root()) else []
    words += ["--", str(trace)] if trace else []
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-P", "-m", _MODULE, *words])
