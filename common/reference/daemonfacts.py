"""What daemons tell of themselves to the manual, as values; a program of theirs writes it as JSON.

Source: daemons/describing.py, which is run as a process, because nothing else may import daemons.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from subprocess import run
from typing import Final

import attrs

from common.errors import Unavailable
from common.wire import structure

_MODULE: Final = "daemons.describing"


@attrs.frozen
class ProgramOption:
    """An option or an argument of a program."""

    # empty: an argument
    names: tuple[str, ...]
    # what stands for its value; empty: it has none
    value: str
    text: str


@attrs.frozen
class ProgramFacts:
    name: str
    about: str
    options: tuple[ProgramOption, ...]


@attrs.frozen
class FieldFacts:
    """A field of a query."""

    name: str
    title: str
    kind: str
    text: str


@attrs.frozen
class MetricFacts:
    name: str
    # gauge, counter or histogram
    kind: str
    text: str
    labels: tuple[str, ...]


@attrs.frozen
class DaemonFacts:
    programs: tuple[ProgramFacts, ...]
    # kind of things -> its fields
    fields: Mapping[str, tuple[FieldFacts, ...]]
    # daemon -> method -> role that a caller needs
    roles: Mapping[str, Mapping[str, str]]
    # of the HTTP interface
    metrics: tuple[MetricFacts, ...]
    # OpenAPI document of the HTTP interface
    http: Mapping[str, object]


def read_daemon_facts() -> DaemonFacts:
    """Run the daemons' program. Raises: Unavailable: it failed. Cost: a second of processor."""
    # imported late: only this needs it
    import orjson

    top = Path(__file__).parents[2]
    done = run([sys.executable, "-m", _MODULE], capture_output=True, cwd=top, check=False)
    if done.returncode != 0:
        raise Unavailable(f"{_MODULE} failed: {done.stderr.decode(errors='replace').strip()}")
    return structure(orjson.loads(done.stdout), DaemonFacts, "facts of the daemons")
