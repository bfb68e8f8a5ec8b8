"""The demo of a failover finds an etcd that Gantry accepts, or tells what to install."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

MEMBERS = Path(__file__).parents[2] / "deploy" / "demo" / "etcdmembers.py"


@pytest.fixture(scope="module")
def etcdmembers() -> ModuleType:
    spec = importlib.util.spec_from_file_location("etcdmembers", MEMBERS)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder in PATH; beside Python there is no etcd either."""
    folder = tmp_path / "path"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "venv" / "python"))
    return folder


def install(folder: Path, told: str) -> str:
    folder.mkdir(exist_ok=True)
    program = folder / "etcd"
    program.write_text(f"#!/bin/sh\necho '{told}'\n")
    program.chmod(0o755)
    return str(program)


def test_without_an_etcd_it_tells_what_to_install(etcdmembers: ModuleType, path: Path) -> None:
    with pytest.raises(SystemExit, match=r"apt-get install etcd-server$"):
        etcdmembers.find_etcd()


def test_an_etcd_beside_python_is_used(etcdmembers: ModuleType, path: Path, tmp_path: Path) -> None:
    beside = install(tmp_path / "venv", "etcd Version: 3.5.16")

    assert etcdmembers.find_etcd() == beside


def test_a_release_that_gantry_refuses_is_named_and_the_next_one_is_used(
    etcdmembers: ModuleType, path: Path, tmp_path: Path
) -> None:
    refused = install(path, "etcd Version: 3.5.1")

    with pytest.raises(SystemExit, match=f"install etcd-server\nnot used: {refused} is release 3.5.1, which may lose"):
        etcdmembers.find_etcd()

    beside = install(tmp_path / "venv", "etcd Version: 3.4.23")
    assert etcdmembers.find_etcd() == beside


def test_a_program_of_that_name_that_is_no_etcd_is_told(etcdmembers: ModuleType, path: Path) -> None:
    other = install(path, "hello")

    with pytest.raises(SystemExit, match=f"not used: {other} is no etcd"):
        etcdmembers.find_etcd()
