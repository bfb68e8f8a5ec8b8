"""A traceback and a list of open files show the name of a module first: within a daemon it says which one is meant."""

from collections import Counter
from pathlib import Path

import pytest

import daemons

DAEMONS = Path(daemons.__path__[0])


@pytest.mark.parametrize("daemon", sorted(path.name for path in DAEMONS.iterdir() if (path / "__init__.py").exists()))
def test_no_two_modules_of_a_daemon_have_one_name(daemon: str) -> None:
    names = Counter(path.name for path in (DAEMONS / daemon).rglob("*.py") if path.name != "__init__.py")

    assert names
    assert [name for name, count in names.items() if count > 1] == []
