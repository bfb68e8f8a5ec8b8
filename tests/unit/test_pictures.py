"""The pictures of the documentation are whole and small, and need nothing from outside: python -m tests.pictures."""

import re
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

import pytest

from tests.pictures.lighter import lighter

FOLDER: Final = Path(__file__).parents[2] / "docs" / "pictures"
# bytes at most
SIZES: Final = {"demo.svg": 100_000, "demo-proof.svg": 100_000, "page.svg": 300_000}
# names of the language of pictures, which no program fetches
_NAMESPACES: Final = re.compile(r'xmlns(:xlink)?="http://www\.w3\.org/[\w/]+"')
_STRANGE: Final = re.compile(r"https?:|url\((?!#)|@import|@font-face|<script|<image|data:|/(?:tmp|home|root|work|var)/")
_NAME: Final = "{http://www.w3.org/2000/svg}"


def test_all_pictures_are_those_that_the_program_makes() -> None:
    assert {path.name for path in FOLDER.glob("*.svg")} == SIZES.keys()


@pytest.mark.parametrize("name", SIZES)
def test_a_picture_is_whole_small_and_by_itself(name: str) -> None:
    text = (FOLDER / name).read_text()

    drawn = ElementTree.fromstring(text)
    assert drawn.tag == f"{_NAME}svg"
    assert drawn.find(f"{_NAME}title") is not None
    assert len(text.encode()) <= SIZES[name]
    assert _STRANGE.findall(_NAMESPACES.sub("", text)) == []


def test_a_lighter_picture_shows_the_same() -> None:
    picture = (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        '<svg xmlns="http://www.w3.org/2000/svg" width="30pt" height="20.5pt" viewBox="0 0 30 20.5" version="1.2">\n'
        '  <path style=" stroke:none;fill-rule:nonzero;fill:rgb(100%,0%,20%);fill-opacity:1;" '
        'd="M 0.328125 -1.5 L 30 2 Z M 0.328125 -1.5 "/>\n</svg>\n'
    )

    assert lighter(picture, "A line") == (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 30 20.5" version="1.2" role="img">\n'
        '<title>A line</title>\n<path style="fill:#ff0033;" d="M0.33-1.5L30 2Z"/>\n</svg>\n'
    )
