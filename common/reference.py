"""What the code tells of itself to documents: the manual, and the description of rapid."""

import ast
import inspect
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from subprocess import run
from typing import Final

import attrs

from common.errors import Unavailable
from common.wire import structure

# What daemons tell of themselves to the manual, as values; a program of theirs writes it as JSON.
#
# Source: daemons/describing.py, which is run as a process, because nothing else may import daemons.


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

    top = Path(__file__).parents[1]
    done = run([sys.executable, "-m", _MODULE], capture_output=True, cwd=top, check=False)
    if done.returncode != 0:
        raise Unavailable(f"{_MODULE} failed: {done.stderr.decode(errors='replace').strip()}")
    return structure(orjson.loads(done.stdout), DaemonFacts, "facts of the daemons")


# The comments over the fields of a class, as descriptions for documents about it.
#
# They are read from the source, which is there wherever Gantry runs; without it a document has fewer descriptions.


def notes_of(kind: type) -> Mapping[str, str]:
    """Field -> the comment above it, in one line. Never raises because there is no source."""
    return _notes(kind.__module__).get(kind.__qualname__, {})


def summary_of(kind: type) -> str:
    """The first paragraph of its docstring; attrs writes some of its own, which are left out."""
    text = inspect.cleandoc(vars(kind).get("__doc__") or "")
    return " ".join(text.partition("\n\n")[0].split())


@cache
def _notes(module: str) -> Mapping[str, Mapping[str, str]]:
    """Class -> its notes, for all classes of a module; a module is read once for all of them."""
    try:
        source = inspect.getsource(sys.modules[module])
        tree = ast.parse(source)
    except (KeyError, OSError, TypeError, SyntaxError, ValueError):
        return {}
    lines = source.splitlines()
    return {name: _notes_in(node, lines) for name, node in _classes(tree, "")}


def _classes(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.ClassDef]]:
    for each in ast.iter_child_nodes(node):
        if isinstance(each, ast.ClassDef):
            yield f"{prefix}{each.name}", each
            yield from _classes(each, f"{prefix}{each.name}.")


def _notes_in(node: ast.ClassDef, lines: list[str]) -> Mapping[str, str]:
    fields = (each for each in node.body if isinstance(each, ast.AnnAssign))
    notes = {each.target.id: _above(lines, each.lineno - 1) for each in fields if isinstance(each.target, ast.Name)}
    return {name: note for name, note in notes.items() if note}


def _above(lines: list[str], index: int) -> str:
    comment: list[str] = []
    while index > 0 and lines[index - 1].lstrip().startswith("# "):
        index -= 1
        comment.insert(0, lines[index].strip()[2:])
    return " ".join(comment)
