"""A wheel has the man pages, where man finds them beside the programs."""

import importlib.util
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, cast

CHECKOUT = Path(__file__).parents[4]


def hook_module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("hatch_build", CHECKOUT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_hook_adds_the_pages_to_the_wheel_and_leaves_nothing_behind() -> None:
    nothing = cast(Any, SimpleNamespace())
    hook = hook_module().ManualHook(str(CHECKOUT), {}, nothing, nothing, str(CHECKOUT / "dist"), "wheel")
    build_data: dict[str, Any] = {"shared_data": {}}

    hook.initialize("standard", build_data)

    places = {place: Path(folder) for folder, place in build_data["shared_data"].items()}
    assert {"share/man/man1", "share/man/man5", "share/man/man7"} <= set(places)
    assert (places["share/man/man1"] / "gnt-job-run.1").read_text().startswith("'\\\" t\n.TH ")
    hook.finalize("standard", build_data, "gantry.whl")
    assert not places["share/man/man1"].exists()
