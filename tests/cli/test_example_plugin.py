"""The example of a plug-in package is installed, tried with its own tests, and runs in a real cluster."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command import CHECKOUT, Ended, environment, run

EXAMPLE = CHECKOUT / "deploy" / "examples" / "gantry-sites"
SECRET = "squeamish-ossifrage"


@pytest.fixture(scope="module")
def site_packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the example installed, as `pip install` does it; nothing is downloaded."""
    folder = tmp_path_factory.mktemp("plugin")
    # a copy: the build leaves nothing in the checkout
    copy = folder / "source"
    subprocess.run(["cp", "-r", EXAMPLE, copy], check=True)
    offline = ["--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--disable-pip-version-check"]
    subprocess.run(
        [sys.executable, "-m", "pip", "install", *offline, "--target", folder / "site", copy],
        check=True,
        env=environment(),
    )
    return folder / "site"


def path_with(site_packages: Path) -> dict[str, str]:
    return {"PYTHONPATH": os.pathsep.join([str(CHECKOUT), str(site_packages)])}


def test_its_own_tests_pass_with_the_kit(site_packages: Path, tmp_path: Path) -> None:
    # where pytest numbers the folders of runs; one that takes the next number removes old ones at its end
    others = tmp_path / "others"
    others.mkdir()
    ended = subprocess.run(
        [
            sys.executable,
            "-P",
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "--rootdir",
            tmp_path,
            "--basetemp",
            tmp_path / "kit",
            EXAMPLE / "tests",
        ],
        capture_output=True,
        text=True,
        check=False,
        env=environment(
            {**path_with(site_packages), "PYTHONDONTWRITEBYTECODE": "1", "PYTEST_DEBUG_TEMPROOT": str(others)}
        ),
        cwd=tmp_path,
    )

    assert ended.returncode == 0, ended.stdout
    assert "5 passed" in ended.stdout
    assert list(others.iterdir()) == [], "folders of other runs, which may be large, are nobody's to remove here"


@pytest.fixture
def folder(tmp_path: Path, site_packages: Path) -> Iterator[Path]:
    """With a cluster in `r` that has the plug-in."""
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "index.html").write_text("hello\n")
    (tmp_path / "store").mkdir()
    assert gantry(tmp_path, site_packages, "up", "--detach").code == 0
    yield tmp_path
    gantry(tmp_path, site_packages, "down", "--jobs")


def gantry(folder: Path, site_packages: Path, *words: object) -> Ended:
    return run("gantry", "--root", folder / "r", *words, env=path_with(site_packages))


def test_a_job_of_it_runs_in_a_cluster_under_its_locks_and_keeps_its_secret(folder: Path, site_packages: Path) -> None:
    op = {
        "OP_ID": "OP_SITE_PUBLISH",
        "site": "shop",
        "source": str(folder / "build"),
        "store": str(folder / "store"),
        "credentials": {"key": SECRET},
    }
    plan = folder / "plan.json"
    plan.write_text(json.dumps([[op], [{**op, "source": "/nowhere"}]]))

    submitted = gantry(folder, site_packages, "job", "submit", "--wait", plan)
    plan.unlink()
    listed = gantry(folder, site_packages, "job", "list", "--no-headers", "-o", "id,status,summary")
    told = json.loads(gantry(folder, site_packages, "job", "info", "--output", "json", "1", "2").out)
    refused = gantry(folder, site_packages, "job", "submit", _written(folder, [[{**op, "keep": 0}]]))

    # the second one has no source
    assert submitted.code != 0
    assert [line.split() for line in listed.out.splitlines()] == [
        ["1", "success", "SITE_PUBLISH(shop)"],
        ["2", "error", "SITE_PUBLISH(shop)"],
    ]
    assert (folder / "store/shop/current/index.html").read_text() == "hello\n"
    assert len((folder / "store/shop/current/SIGNATURE").read_text()) == 65
    assert "100 %: index.html" in json.dumps(told)
    assert "there is no folder '/nowhere'" in json.dumps(told)
    assert refused.code != 0
    assert "keep" in refused.err
    (folder / "refused.json").unlink()
    assert [path for path in folder.rglob("*") if _tells(path)] == []


def _tells(path: Path) -> bool:
    try:
        return path.is_file() and SECRET.encode() in path.read_bytes()
    except FileNotFoundError:
        # the daemons run, and have moved it meanwhile
        return False


def _written(folder: Path, jobs: object) -> Path:
    path = folder / "refused.json"
    path.write_text(json.dumps(jobs))
    return path
