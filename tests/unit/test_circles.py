"""No module of ours imports itself through others, not even late in a function or for its types only."""

from graphlib import CycleError, TopologicalSorter

import grimp
import pytest

PROGRAMS = ("cli", "common", "daemons", "protocol")


def circle(imports: dict[str, set[str]]) -> list[str]:
    """The modules of one circle, the first one again at the end; empty: there is none."""
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        found: list[str] = error.args[1]
        return found
    return []


def test_no_module_imports_itself_through_others() -> None:
    graph = grimp.build_graph(*PROGRAMS, cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) - {module} for module in graph.modules}

    assert circle(imports) == []


@pytest.mark.parametrize(
    ("imports", "expected"),
    [({"a": {"b"}, "b": {"c"}}, set()), ({"a": {"b"}, "b": {"c"}, "c": {"a"}}, {"a", "b", "c"})],
)
def test_a_circle_is_named(imports: dict[str, set[str]], expected: set[str]) -> None:
    assert set(circle(imports)) == expected
