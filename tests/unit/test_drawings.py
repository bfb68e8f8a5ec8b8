"""The drawings in docs/machines.md and in the guide are those of the tables."""

from pathlib import Path

import pytest

from tests.drawings import FILES, drawing, drawn, machines


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_drawings_are_as_the_tables_say(file: Path) -> None:
    text = file.read_text()

    assert "<!-- drawing:" in text
    assert drawn(text) == text, "draw them anew: python tests/drawings.py"


def test_every_machine_is_drawn() -> None:
    text = FILES[0].read_text()

    for name, steps in machines().items():
        assert text.count(f"<!-- drawing: {name} -->\n\n{drawing(steps)}\n\n<!-- end -->") == 1, name


def test_an_unknown_machine_is_refused() -> None:
    with pytest.raises(KeyError, match="engine"):
        drawn("<!-- drawing: engine -->\n<!-- end -->")
