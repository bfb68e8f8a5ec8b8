"""CONTRIBUTING.md names files that are there, and its map of tests is the one by which `make quick` goes."""

import re
from pathlib import Path

import pytest

from tests.quick import ALWAYS, MAP, further, row_of, table, to_run

CHECKOUT = Path(__file__).parents[2]
NAMED = re.findall(r"`((?:\w[\w.-]*/)+[\w.-]*|\w+\.toml)`", (CHECKOUT / "CONTRIBUTING.md").read_text())
# things that a reader might add, and folders of any daemon
INVENTED = re.compile("frob|FAMILY|^(core|handlers)/$")


@pytest.mark.parametrize("name", sorted({name for name in NAMED if not INVENTED.search(name)}))
def test_a_file_that_is_named_exists(name: str) -> None:
    assert (CHECKOUT / name).exists()


def test_the_map_of_tests_is_as_the_code_has_it() -> None:
    assert table() in (CHECKOUT / "CONTRIBUTING.md").read_text(), "print it anew: python tests/quick.py --map"


@pytest.mark.parametrize("path", sorted({path for row in MAP for paths in row for path in paths}))
def test_a_path_of_the_map_exists(path: str) -> None:
    assert (CHECKOUT / path).exists()


def test_every_module_has_unit_tests_in_the_map() -> None:
    modules = [
        path for folder in ("cli", "common", "daemons", "protocol") for path in (CHECKOUT / folder).rglob("*.py")
    ]
    names = [str(path.relative_to(CHECKOUT)) for path in modules]

    # what describes the daemons to the manual is tested with it
    assert [name for name in names if row_of(name) is None and name.count("/") > 1] == []


def test_every_folder_of_unit_tests_is_in_the_map() -> None:
    folders = {f"tests/unit/{path.name}" for path in (CHECKOUT / "tests" / "unit").iterdir() if path.is_dir()}
    mapped = {"/".join(path.split("/")[:3]) for row in MAP for path in row.unit}

    # tests of tests
    assert folders - mapped - {"tests/unit/bench", "tests/unit/__pycache__"} == set()


def test_the_most_exact_row_says_what_is_run() -> None:
    changed = ["common/queue/jobs.py", "daemons/rapid/page/pages.py", "tests/unit/mond/test_reports.py", "LICENSE"]

    assert set(to_run(changed)) == {
        *ALWAYS,
        *(
            "tests/unit/common/queue",
            "tests/unit/luxid/queue",
            "tests/unit/rapid/page",
            "tests/unit/mond/test_reports.py",
        ),
    }


def test_a_folder_takes_its_parts_along() -> None:
    assert to_run(["daemons/luxid/scheduler.py", "daemons/luxid/core/query/jobs.py"]) == sorted(
        [*ALWAYS, "tests/unit/luxid"]
    )


def test_other_tests_are_named_for_later() -> None:
    assert further(["cli/remote.py", "tests/crash/test_restarts.py", "tests/quick.py"]) == [
        "tests/cli/remote",
        "tests/crash/test_restarts.py",
    ]


def test_hooks_run_what_is_there() -> None:
    named = re.findall(r"tests/\S+\.py", (CHECKOUT / ".pre-commit-config.yaml").read_text())

    assert named
    assert [path for path in named if not (CHECKOUT / path).exists()] == []
