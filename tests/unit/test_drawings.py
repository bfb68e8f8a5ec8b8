"""The drawings in ARCHITECTURE.md are those of the tables."""

import pytest

from tests.drawings import FILE, drawing, drawn, machines


def test_the_drawings_are_as_the_tables_say() -> None:
    text = FILE.read_text()

    assert drawn(text) == text, "draw them anew: python tests/drawings.py"


def test_every_machine_is_drawn() -> None:
    text = FILE.read_text()

    for name, steps in machines().items():
        assert text.count(f"<!-- drawing: {name} -->\n\n{drawing(steps)}\n\n<!-- end -->") == 1, name


def test_an_unknown_machine_is_refused() -> None:
    with pytest.raises(KeyError, match="engine"):
        drawn("<!-- drawing: engine -->\n<!-- end -->")
