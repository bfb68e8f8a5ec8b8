"""Man pages as a reader sees them, by mandoc."""

import shutil
import subprocess
from typing import Final

import pytest

MANDOC: Final = shutil.which("mandoc")
needs_mandoc: Final = pytest.mark.skipif(MANDOC is None, reason="mandoc is not installed: apt-get install mandoc")


def shown(source: str, width: int = 78) -> str:
    """The text of a man page, without bold type and underlines."""
    done = subprocess.run(
        ["mandoc", "-Tutf8", f"-Owidth={width}"], input=source, capture_output=True, text=True, check=True
    )
    characters: list[str] = []
    for char in done.stdout:
        if char == "\b":
            characters.pop()
        else:
            characters.append(char)
    return "".join(characters)


def warnings(source: str) -> str:
    """What mandoc finds wrong."""
    done = subprocess.run(["mandoc", "-Tlint", "-Wwarning"], input=source, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr
