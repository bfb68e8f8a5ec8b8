"""Test the operation with Gantry's kit, which needs no daemon and no cluster, and also checks the opcode."""

from pathlib import Path
from typing import Any

import pytest
from gantry_sites.units import SitePublishUnit

from common.errors import InvalidRequest, JobCanceled, PrerequisiteError
from daemons.jobproc.testing import UnitTrial


@pytest.fixture
def parameters(tmp_path: Path) -> dict[str, Any]:
    source, store = tmp_path / "build", tmp_path / "store"
    store.mkdir()
    (source / "css").mkdir(parents=True)
    (source / "index.html").write_text("new")
    (source / "css" / "style.css").write_text("b {}")
    return {"site": "shop", "source": str(source), "store": str(store), "credentials": {"key": "squeamish"}}


def test_a_release_is_put_in_place_and_signed(tmp_path: Path, parameters: dict[str, Any]) -> None:
    trial = UnitTrial(tmp_path / "trial")

    result = trial.carry_out(SitePublishUnit, parameters)

    assert result == {"release": 1, "files": 2, "removed": []}
    assert (tmp_path / "store/shop/current/index.html").read_text() == "new"
    assert len((tmp_path / "store/shop/current/SIGNATURE").read_text()) == 65
    assert trial.locks == {"cluster/BGL": "shared", "instance/shop": "exclusive", "node-res/sites": "shared"}
    assert trial.feedback == ["50 %: css/style.css", "100 %: index.html"]


def test_only_the_newest_releases_are_kept(tmp_path: Path, parameters: dict[str, Any]) -> None:
    for _ in range(3):
        result = UnitTrial(tmp_path / "trial").carry_out(SitePublishUnit, {**parameters, "keep": 2})

    assert result == {"release": 3, "files": 2, "removed": [1]}
    assert sorted(path.name for path in (tmp_path / "store/shop").iterdir()) == ["2", "3", "current"]


def test_cancelled_halfway_it_leaves_the_old_release_in_place(tmp_path: Path, parameters: dict[str, Any]) -> None:
    UnitTrial(tmp_path / "trial").carry_out(SitePublishUnit, parameters)
    trial = UnitTrial(tmp_path / "trial", cancel_when=lambda trial: len(trial.feedback) == 1)

    with pytest.raises(JobCanceled):
        trial.carry_out(SitePublishUnit, parameters)

    assert sorted(path.name for path in (tmp_path / "store/shop").iterdir()) == ["1", "current"]


def test_without_its_folders_it_does_nothing(tmp_path: Path, parameters: dict[str, Any]) -> None:
    with pytest.raises(PrerequisiteError, match="source: there is no folder '/nowhere'"):
        UnitTrial(tmp_path / "trial").carry_out(SitePublishUnit, {**parameters, "source": "/nowhere"})


def test_a_job_that_would_keep_no_release_is_refused_when_it_is_submitted(
    tmp_path: Path, parameters: dict[str, Any]
) -> None:
    with pytest.raises(InvalidRequest, match="keep"):
        UnitTrial(tmp_path / "trial").carry_out(SitePublishUnit, {**parameters, "keep": 0})
