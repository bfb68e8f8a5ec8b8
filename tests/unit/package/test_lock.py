"""The lock of the package's dependencies agrees with pyproject.toml."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

CHECKOUT = Path(__file__).resolve().parents[3]
LOCK = (CHECKOUT / "deploy/package/requirements.lock").read_text()
LOCKED = {
    canonicalize_name(name): version for name, version in re.findall(r"^([\w.-]+)==(\S+)(?: ;.*)? \\$", LOCK, re.M)
}
WANTED = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["dependencies"]


@pytest.mark.parametrize("text", WANTED, ids=lambda text: re.split(r"\W", text)[0])
def test_each_dependency_is_locked_at_a_release_that_pyproject_takes(text: str) -> None:
    wanted = Requirement(text)
    name = canonicalize_name(wanted.name)

    assert name in LOCKED, "the lock is older than pyproject.toml: make lock"
    assert wanted.specifier.contains(LOCKED[name]), f"{name} {LOCKED[name]} is locked, {text} is wanted: make lock"


def test_each_locked_release_has_hashes_and_no_place_is_named() -> None:
    parts = re.split(r"^(?=[\w.-]+==)", LOCK, flags=re.M)[1:]

    assert len(parts) == len(LOCKED)
    assert all(re.search(r"--hash=sha256:[0-9a-f]{64}", part) for part in parts)
    assert not re.search(r"://|--(extra-)?index|--find-links", LOCK)
