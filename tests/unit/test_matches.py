"""Every `match` on an enum or a union of classes is exhaustive, and says so: a new member fails the type check."""

import ast
from collections.abc import Iterator
from pathlib import Path

TOP = Path(__file__).parents[2]
FOLDERS = ("cli", "common", "daemons", "protocol", "deploy")


def _modules() -> dict[Path, ast.Module]:
    """All that is parsed; whoever keeps it makes each later test slower by its size."""
    return {path: ast.parse(path.read_text()) for folder in FOLDERS for path in sorted((TOP / folder).rglob("*.py"))}


def _enums(modules: dict[Path, ast.Module]) -> set[str]:
    classes = [node for tree in modules.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    return {node.name for node in classes if any("Enum" in ast.unparse(base) for base in node.bases)}


def _members_of_unions(modules: dict[Path, ast.Module]) -> set[str]:
    """The classes in `Name = First | Second` at the top of a module; errors are never all known."""
    values = [node.value for tree in modules.values() for node in tree.body if isinstance(node, ast.Assign)]
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
        case _:
            pass


def _is_of_members(case: ast.match_case) -> bool:
    return any(isinstance(node, ast.MatchValue) for node in ast.walk(case.pattern))


def _is_exhaustive(match: ast.Match, behind: ast.stmt | None) -> bool:
    """Whether the last case, or the statement behind cases that all return, tells the type checker so."""
    last = match.cases[-1]
    if last.guard is None and isinstance(last.pattern, ast.MatchAs):
        # there may be more classes than are known here; members of an enum are all known
        is_refused = isinstance(last.body[-1], ast.Raise) and not any(_is_of_members(case) for case in match.cases)
        return is_refused or "assert_never(" in ast.unparse(last)
    return behind is not None and ast.unparse(behind).startswith("assert_never(")


def _matches(tree: ast.Module) -> Iterator[tuple[ast.Match, ast.stmt | None]]:
    """Each match with the statement behind it."""
    for node in ast.walk(tree):
        for body in (getattr(node, name, None) for name in ("body", "orelse", "finalbody")):
            if isinstance(body, list):
                for place, statement in enumerate(body):
                    if isinstance(statement, ast.Match):
                        yield statement, next(iter(body[place + 1 :]), None)


def test_every_match_on_a_closed_set_ends_in_assert_never() -> None:
    modules = _modules()
    closed = _enums(modules) | _members_of_unions(modules)
    found = [
        (f"{path.relative_to(TOP)}:{match.lineno}", _is_exhaustive(match, behind))
        for path, tree in modules.items()
        for match, behind in _matches(tree)
        if any(name in closed for case in match.cases for name in _heads(case.pattern))
    ]

    assert len(found) >= 15
    assert [place for place, is_exhaustive in found if not is_exhaustive] == []
