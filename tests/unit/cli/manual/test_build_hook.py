"""A wheel has the man pages, where man finds them beside the programs."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import pytest

CHECKOUT = Path(__file__).parents[4]


def hook_module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("hatch_build", CHECKOUT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_hook_adds_the_pages_to_the_wheel_and_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = cast(Any, SimpleNamespace())
    hook = hook_module().ManualHook(str(CHECKOUT), {}, nothing, nothing, str(CHECKOUT / "dist"), "wheel")
    build_data: dict[str, Any] = {"shared_data": {}}
    asked: list[list[str]] = []

    def write(argv: list[str], **_: object) -> None:
        asked.append(argv)
        (Path(argv[-1]) / "man1").mkdir()
        (Path(argv[-1]) / "man1" / "gnt-job-run.1").touch()

    monkeypatch.setattr(subprocess, "run", write)

    hook.initialize("standard", build_data)

    ((folder, place),) = build_data["shared_data"].items()
    assert place == "share/man/man1"
    assert (Path(folder) / "gnt-job-run.1").exists()
    assert asked == [[sys.executable, "-m", "cli.manual", "man", str(Path(folder).parent)]]
    hook.finalize("standard", build_data, "gantry.whl")
    assert not Path(folder).exists()
