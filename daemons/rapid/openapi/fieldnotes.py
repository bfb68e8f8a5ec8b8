"""The comments over the fields of a class, as descriptions for the document.

They are read from the source, which is there wherever Gantry runs; without it a document has fewer descriptions.
"""

import ast
import inspect
import textwrap
from collections.abc import Mapping


def notes_of(kind: type) -> Mapping[str, str]:
    """Field -> the comment above it, in one line. Never raises because there is no source."""
    try:
        source = textwrap.dedent(inspect.getsource(kind))
        (node,) = ast.parse(source).body
    except (OSError, TypeError, SyntaxError, ValueError):
        return {}
    lines = source.splitlines()
    fields = (each for each in getattr(node, "body", ()) if isinstance(each, ast.AnnAssign))
    notes = {each.target.id: _above(lines, each.lineno - 1) for each in fields if isinstance(each.target, ast.Name)}
    return {name: note for name, note in notes.items() if note}


def summary_of(kind: type) -> str:
    """The first paragraph of its docstring; attrs writes some of its own, which are left out."""
    text = inspect.cleandoc(vars(kind).get("__doc__") or "")
    return " ".join(text.partition("\n\n")[0].split())


def _above(lines: list[str], index: int) -> str:
    comment: list[str] = []
    while index > 0 and lines[index - 1].lstrip().startswith("# "):
        index -= 1
        comment.insert(0, lines[index].strip()[2:])
    return " ".join(comment)
