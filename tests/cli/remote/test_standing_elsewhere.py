"""Schedules and counted resources with `--remote`; programs that have no `--remote`."""

import json
from typing import Any

import pytest

from cli.gantry.main import group as gantry
from cli.node.main import group as node
from cli.program import exit_code
from tests.cli.command import Ended
from tests.cli.remote.place import Capture
from tests.support.web.rapid import Web


@pytest.fixture
def elsewhere(web: Web, token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"REMOTE": web.url, "CA": str(web.paths.rapi_pem), "TOKEN": token}.items():
        monkeypatch.setenv(f"GANTRY_{name}", value)


def run(capsys: Capture, *words: object) -> Ended:
    capsys.readouterr()
    code = exit_code(gantry, "gantry", [*map(str, words)])
    captured = capsys.readouterr()
    return Ended(code, captured.out, captured.err)


def as_json(capsys: Capture, *words: object) -> Any:
    return json.loads(run(capsys, *words, "--output", "json").out)


@pytest.mark.usefixtures("elsewhere")
def test_the_story_of_a_schedule_elsewhere(web: Web, capsys: Capture) -> None:
    added = run(capsys, "schedule", "add", "nightly", "--cron", "0 2 * * *", "--", "true")
    again = run(capsys, "schedule", "add", "nightly", "--every", "1h", "--", "false")
    nothing = run(capsys, "schedule", "modify", "other", "--every", "1h")

    assert (added.code, added.out) == (0, "nightly\n")
    assert (again.code, "nightly" in again.err) == (1, True)
    assert (nothing.code, "other" in nothing.err) == (1, True)
    assert [each["schedule"]["name"] for each in web.local.get("/3/schedules").json()["schedules"]] == ["nightly"]
    assert len(as_json(capsys, "schedule", "info", "--next", "7", "nightly")[0]["next_at"]) == 7
    assert run(capsys, "schedule", "modify", "nightly", "--every", "2h").code == 0
    assert run(capsys, "schedule", "pause", "nightly").code == 0
    assert as_json(capsys, "schedule", "list")[0]["state"] == "paused"
    assert run(capsys, "schedule", "resume", "nightly").code == 0
    job_id = int(run(capsys, "schedule", "run", "nightly").out)
    assert web.local.get(f"/3/jobs/{job_id}").json()["name"] == "nightly"
    web.cluster.wait(job_id)
    assert run(capsys, "schedule", "remove", "nightly").code == 0
    assert run(capsys, "schedule", "remove", "nightly").code == 1
    assert as_json(capsys, "schedule", "list") == []


@pytest.mark.usefixtures("elsewhere")
def test_the_story_of_a_resource_elsewhere(capsys: Capture) -> None:
    assert run(capsys, "resource", "set", "licences", "3").out == "there are 3 of 'licences' now\n"
    assert run(capsys, "resource", "set", "--node", "web1", "memory", "4G").code == 0
    assert [(each["name"], each["total"]) for each in as_json(capsys, "resource", "list")] == [
        ("licences", 3),
        ("web1:memory", 4 * 2**30),
    ]
    assert "Total: 3\n" in run(capsys, "resource", "info", "licences").out
    assert run(capsys, "resource", "remove", "licences", "web1:memory").code == 0
    assert as_json(capsys, "resource", "list") == []


@pytest.mark.usefixtures("elsewhere")
def test_a_program_for_this_machine_does_not_take_the_variable_for_nothing(web: Web, capsys: Capture) -> None:
    code = exit_code(node, "gnt-node", ["list"])
    refused = capsys.readouterr().err
    pruned = run(capsys, "prune", "--dry-run")

    assert code == 2
    assert f"'gnt-node list' works only on a machine of the cluster, and $GANTRY_REMOTE names {web.url}" in refused
    assert pruned.code == 2
    # it names the cluster here
    assert "GANTRY_REMOTE" not in run(capsys, "--root", web.paths.data.parent, "prune", "--dry-run").err
