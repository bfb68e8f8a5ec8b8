"""`gantry resource`, and resources where else they are told. Source: DESIGN section 16."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from protocol.luxi.queue import ReadResourceUse, RemoveResource
from tests.cli.command import Ended, normalised, run
from tests.cli.verbs.gantry.test_completion import PATIENT
from tests.support.cluster import Cluster
from tests.support.wait import wait_until


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("resources") / "root") as cluster:
        cluster.start()
        yield cluster


@pytest.fixture(autouse=True)
def _removed(cluster: Cluster) -> Iterator[None]:
    """No resource is left for the tests after it, whichever they are."""
    yield
    for use in cluster.luxi(ReadResourceUse()):
        cluster.luxi(RemoveResource(use.resource.node, use.resource.name))


def gantry(cluster: Cluster, *words: object) -> Ended:
    return run("gantry", "--root", cluster.root, *words)


def resource(cluster: Cluster, *words: object) -> Ended:
    return gantry(cluster, "resource", *words)


def test_the_story_of_a_licence(cluster: Cluster, tmp_path: Path) -> None:
    assert resource(cluster, "list") == Ended(
        0, "", "there are no resources; set one with 'gantry resource set licences 5'\n"
    )
    assert resource(cluster, "set", "licences", "2").out == "there are 2 of 'licences' now\n"
    assert resource(cluster, "set", "--node", "web1", "memory", "1.5G").out == "there are 1536M of 'web1:memory' now\n"
    gate = tmp_path / "gate"
    script = f"until [ -e {gate} ]; do sleep 0.02; done"
    words = ("job", "run", "--use", "licences=2", "--use", "web1:memory=1G", "--", "sh", "-c", script)
    user = int(gantry(cluster, *words).out)
    wait_until(lambda: cluster.status(user) == "running", what="it runs")
    waiter = int(gantry(cluster, "job", "run", "--use", "licences", "--", "true").out)

    assert normalised(resource(cluster, "list").out) == (
        "NAME  TOTAL  USED  FREE  JOBS  WAITING\nlicences  2  2  0  1  1\nweb1:memory  1536M  1G  512M  1  0\n"
    )
    assert json.loads(resource(cluster, "info", "licences", "--output", "json").out) == {
        "name": "licences",
        "node": None,
        "unit": "count",
        "total": 2,
        "used": 2,
        "free": 0,
        "waiting": 1,
        "users": [{"job": user, "count": 2}],
    }
    assert resource(cluster, "info", "web1:memory").out == (
        f"Name: web1:memory\nTotal: 1536M\nIn use: 1G\nFree: 512M\nJobs that wait for it: 0\n  job {user}: 1G\n"
    )
    told = gantry(cluster, "job", "why", waiter).out
    assert f"wants 1 of 'licences', 0 of 2 are free; job/{user} uses it" in told
    lowered = resource(cluster, "set", "licences", "1")
    assert lowered == Ended(
        0,
        "there are 1 of 'licences' now\n",
        "2 are in use; no job takes any before enough is given back\n",
    )
    assert "licences  1  2  -1  1  1" in normalised(resource(cluster, "list").out)
    gate.touch()
    cluster.wait(user, waiter, status="success")


def test_what_is_not_there_is_told(cluster: Cluster) -> None:
    ended = resource(cluster, "remove", "kits")
    assert (ended.code, ended.err) == (
        1,
        "error: there is no resource 'kits'; list them with 'gantry resource list'\n",
    )
    assert resource(cluster, "info", "kits").err == ended.err
    assert "names no resource; write NAME or NODE:NAME" in resource(cluster, "set", "Kits!", "1").err
    assert "'much' is not a size" in resource(cluster, "set", "kits", "much").err
    # it was one byte
    assert "'1.5' is not whole" in resource(cluster, "set", "kits", "1.5").err


def test_what_is_removed_is_told_as_json(cluster: Cluster) -> None:
    resource(cluster, "set", "kits", "1")

    assert json.loads(resource(cluster, "remove", "kits", "--output", "json").out) == ["kits"]


def test_a_removed_resource_is_waited_for(cluster: Cluster) -> None:
    resource(cluster, "set", "--node", "web2", "disks", "1")

    removed = resource(cluster, "remove", "--node", "web2", "disks")

    assert removed.out == "resource 'web2:disks' is removed\n"
    submitted = gantry(cluster, "job", "run", "--use", "web2:disks", "--", "true")
    job = int(submitted.out)
    assert (
        submitted.err
        == "nobody has set 'web2:disks', so the job waits; set it with: gantry resource set web2:disks TOTAL\n"
    )
    assert (
        "whose total is not set; set it with: gantry resource set web2:disks TOTAL\n"
        in gantry(cluster, "job", "why", job).out
    )
    resource(cluster, "set", "web2:disks", "1")
    cluster.wait(job, status="success")


def test_who_wants_more_than_there_is_is_told_at_once(cluster: Cluster) -> None:
    resource(cluster, "set", "looms", "1")

    ended = gantry(cluster, "job", "run", "--use", "looms=2", "--", "true")

    assert ended.err == "2 of 'looms' are wanted, and there are only 1: it is waited for until there are more\n"
    assert gantry(cluster, "job", "cancel", ended.out.strip()).code == 0
    assert gantry(cluster, "job", "run", "--use", "looms", "--wait", "--", "true") == Ended(0, "", "")


def test_names_are_completed(cluster: Cluster) -> None:
    resource(cluster, "set", "plotters", "1")
    environment = {"_GANTRY_COMPLETE": "bash_complete", "COMP_LINE": "gantry resource info pl", "COMP_WORD": "pl"}
    environment["GANTRY_ROOT"] = str(cluster.root)
    ended = run("gantry", "--root", cluster.root, env=environment, prelude=PATIENT)
    assert "plotters" in ended.out
