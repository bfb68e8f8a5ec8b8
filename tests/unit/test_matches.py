"""Every `match` on an enum or a union of classes is exhaustive, and says so: a new member fails the type check."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

TOP = Path(__file__).parents[2]
FOLDERS = ("cli", "common", "daemons", "protocol", "deploy")


@cache
def _modules() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text()) for folder in FOLDERS for path in sorted((TOP / folder).rglob("*.py"))}


def _enums() -> set[str]:
    classes = [node for tree in _modules().values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    return {node.name for node in classes if any("Enum" in ast.unparse(base) for base in node.bases)}


def _members_of_unions() -> set[str]:
    """The classes in `Name = First | Second` at the top of a module; errors are never all known."""
    values = [node.value for tree in _modules().values() for node in tree.body if isinstance(node, ast.Assign)]
    unions = [value for value in values if isinstance(value, ast.BinOp) and isinstance(value.op, ast.BitOr)]
    names = [node.id for union in unions for node in ast.walk(union) if isinstance(node, ast.Name)]
    return {name for name in names if name[:1].isupper() and not name.endswith("Error")}


def _heads(pattern: ast.pattern | None) -> Iterator[str]:
    """The classes that a case is about: of a member, and of an object."""
    match pattern:
        case ast.MatchOr(patterns=patterns):
            for part in patterns:
                yield from _heads(part)
        case ast.MatchAs(pattern=inner):
            yield from _heads(inner)
        case ast.MatchValue(value=ast.Attribute(value=ast.Name(id=name))) | ast.MatchClass(cls=ast.Name(id=name)):
            yield name


def _is_exhaustive(match: ast.Match) -> bool:
    last = match.cases[-1]
    return last.guard is None and isinstance(last.pattern, ast.MatchAs) and "assert_never(" in ast.unparse(last)


def test_every_match_on_a_closed_set_ends_in_assert_never() -> None:
    closed = _enums() | _members_of_unions()
    found = [
        (f"{path.relative_to(TOP)}:{node.lineno}", _is_exhaustive(node))
        for path, tree in _modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Match) and any(name in closed for case in node.cases for name in _heads(case.pattern))
    ]

    assert len(found) >= 10
    assert [place for place, is_exhaustive in found if not is_exhaustive] == []
