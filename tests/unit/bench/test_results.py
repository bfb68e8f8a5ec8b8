"""Figures of a run come into PERFORMANCE.md, and nothing else of the page changes."""

from pathlib import Path

import pytest

from tests.bench import results
from tests.bench.figures import show
from tests.bench.results import PAGE, filled, keep, read_figures


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(results, "_kept", results._Kept())
    return tmp_path / "results"


def test_what_is_shown_is_kept_and_drawn(file: Path) -> None:
    keep(file, "locks")
    show("lock updates", 1880.4, "/s", "0.23 of the bare loop")
    show("a hand-over", 0.8417, "ms")
    show("lock updates", 2001.6, "/s", "a | b")

    page = filled("above\n<!-- figures -->\nold\n<!-- end -->\nbelow\n", read_figures(file.read_bytes().splitlines()))

    assert page.startswith("above\n<!-- figures -->\n\n**locks**, ")
    assert page.endswith("\n<!-- end -->\nbelow\n")
    assert "| lock updates | 2,002 /s | a \\| b |\n| a hand-over | 0.842 ms | |\n" in page
    assert "old" not in page


def test_without_a_file_nothing_is_kept(file: Path) -> None:
    show("lock updates", 1880.4, "/s")

    assert not file.exists()


def test_the_page_has_a_place_for_figures() -> None:
    assert filled(PAGE.read_text(), []) != ""
    assert PAGE.read_text().count("<!-- figures -->") == 1
