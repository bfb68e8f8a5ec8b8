"""Our programs find our packages when they start each other, installed or not."""

import os
from pathlib import Path

import pytest

from common.system.processes import python_command, python_environment

CHECKOUT = Path(__file__).resolve().parents[3]


def test_the_folder_of_our_packages_is_looked_into_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", f"/other:{CHECKOUT}")

    assert python_environment()["PYTHONPATH"] == f"{CHECKOUT}:/other"
    assert python_environment().items() >= {key: os.environ[key] for key in os.environ if key != "PYTHONPATH"}.items()


def test_nothing_is_imported_from_the_folder_it_is_started_in() -> None:
    assert python_command("daemons.luxid.main", "--root", "/r")[1:] == [
        "-P",
        "-m",
        "daemons.luxid.main",
        "--root",
        "/r",
    ]
