"""What `gantry up` makes of an empty folder."""

import json
from pathlib import Path

import pytest

from cli.gantry import up
from common.settingsfile import load_settings


def test_a_new_cluster_has_the_limit_of_the_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gantry.toml").write_text("[luxid]\nmax_running_jobs = 2\n")
    settings = load_settings(tmp_path)
    settings.paths.make_folders()
    told: list[str] = []
    monkeypatch.setattr(up, "tell", told.append)

    up._make_cluster(settings)

    assert json.loads(settings.paths.config_data.read_text())["cluster"]["max_running_jobs"] == 2
    assert [line.split()[:2] for line in told] == [["cluster", "made"]]
