"""Lines of the demos are folded between words, and nothing else is changed."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

FOLDING = Path(__file__).parents[2] / "deploy" / "demo" / "folding.py"


@pytest.fixture(scope="module")
def folding() -> ModuleType:
    spec = importlib.util.spec_from_file_location("folding", FOLDING)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_long_line_is_folded_between_words_under_its_own_indent(folding: ModuleType) -> None:
    assert folding.folded("  failed, as the disk is full", 20) == ["  failed, as the", "    disk is full"]


def test_a_line_that_fits_without_its_colours_stays(folding: ModuleType) -> None:
    assert folding.folded("\033[32msuccess\033[0m", 7) == ["\033[32msuccess\033[0m"]


def test_a_long_word_stays_whole(folding: ModuleType) -> None:
    assert folding.folded("see /a/very/long-path/to/a/file", 10) == ["see", "  /a/very/long-path/to/a/file"]


def test_output_and_exit_code_of_a_command_are_its_own(folding: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    code = folding.run_folded(["sh", "-c", "printf 'one\\ntwo'; echo ' three' >&2; test -t 1 || exit 1; exit 7"])

    assert code == 7
    assert capsys.readouterr().out == "one\ntwo three\n"
