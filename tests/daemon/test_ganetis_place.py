"""In the place of Ganeti's daemons: names, versions and words that its tools look for (deploy/ganeti)."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import orjson
import pytest

from common.daemons import daemon_named
from common.ids import JobId
from common.objects.kinds import QueryKind
from common.settingsfile import load_settings
from common.system.program import read_options
from protocol.luxi.jobs import CancelJob
from protocol.luxi.queries import QueryClusterInfo, QueryFields
from protocol.wconfd.locks import Echo
from tests.support.cluster import CHECKOUT, Cluster
from tests.support.wait import wait_until

SETTINGS = '[ganeti]\nprocess_names = true\nrelease = "3.0.3"\n'


@pytest.fixture
def idle(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path, settings=SETTINGS) as cluster:
        yield cluster


def add_candidate(cluster: Cluster) -> None:
    config = orjson.loads(cluster.paths.config_data.read_bytes())
    (node,) = config["nodes"].values()
    config["nodes"]["n2"] = {**node, "uuid": "n2", "name": "node2.test"}
    cluster.paths.config_data.write_bytes(orjson.dumps(config))


def test_processes_pid_files_versions_and_words_are_those_that_its_tools_expect(idle: Cluster) -> None:
    idle.start("wconfd", "luxid")

    for name in ("wconfd", "luxid"):
        pid = int((idle.paths.run / f"ganeti-{name}.pid").read_text())
        assert Path(f"/proc/{pid}/comm").read_text() == f"ganeti-{name}\n"
    assert idle.luxi(QueryClusterInfo())["software_version"] == "3.0.3"
    ssconf = idle.paths.ssconf_file("release_version")
    wait_until(lambda: ssconf.read_text() == "3.0.3\n", what="the nodes are told the same")
    assert idle.luxi_wire(CancelJob(JobId(99999))) == [False, "Job 99999 not found in queue"]


def test_ganetis_job_fields_are_listed_and_ours_are_there_by_name(idle: Cluster) -> None:
    # as recorded from Ganeti 3.0.2
    ganetis = [
        "archived",
        "end_ts",
        "id",
        "opend",
        "opexec",
        "oplog",
        "oppriority",
        "opresult",
        "ops",
        "opstart",
        "opstatus",
        "priority",
        "received_ts",
        "start_ts",
        "status",
        "summary",
    ]
    idle.start("wconfd", "forkserver", "luxid")

    for names in (None, ()):
        listed = idle.luxi_wire(QueryFields(QueryKind.JOB, names))
        assert [field["name"] for field in listed["fields"]] == ganetis
    ours = idle.luxi(QueryFields(QueryKind.JOB, ("name", "labels"))).fields
    assert [(field.name, field.kind != "unknown") for field in ours] == [("name", True), ("labels", True)]


def test_usr1_does_not_end_a_daemon(idle: Cluster) -> None:
    idle.start("wconfd", "luxid")

    for name in ("wconfd", "luxid"):
        os.kill(idle.daemons[name].pid, signal.SIGUSR1)
        wait_until(partial(_ignored, idle, name), what="the signal has come")

    assert idle.wconf(Echo("there")) == "there"
    assert idle.luxi(QueryClusterInfo())["name"] == "cluster.test"


def test_the_options_of_ganetis_daemons_are_taken() -> None:
    words = ["-f", "-d", "--force-node", "--no-voting", "--yes-do-it", "--no-user-checks", "--syslog=no"]

    assert read_options("gantry-wconfd", "", words).debug


def test_wconfd_refuses_to_start_where_nobody_makes_the_copies_that_others_should_have(idle: Cluster) -> None:
    add_candidate(idle)
    command = [sys.executable, "-P", "-m", daemon_named("wconfd").module, "--root", str(idle.root)]

    ended = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(CHECKOUT)}, capture_output=True, text=True, check=False
    )

    assert ended.returncode == 1
    assert "has 1 master candidates beside the master (node2.test)" in ended.stderr
    for setting in ("'replication = \"nodes\"' in '[cluster]'", "'allow_uncopied = true' in '[ganeti]'"):
        assert setting in ended.stderr


def test_it_starts_all_the_same_when_that_is_accepted(idle: Cluster) -> None:
    add_candidate(idle)
    idle.configure(f"{SETTINGS}allow_uncopied = true\n")

    idle.start("wconfd")

    assert idle.wconf(Echo("there")) == "there"


def test_the_settings_for_ganetis_place_can_be_read(tmp_path: Path) -> None:
    text = (CHECKOUT / "deploy/ganeti/gantry.toml").read_text()
    for name in ("gnt-daemons", "gnt-masterd", "gnt-rapi"):
        text = text.replace(json.dumps(name), json.dumps("root"))
    (tmp_path / "gantry.toml").write_text(text)

    settings = load_settings(tmp_path)

    assert (settings.ganeti.process_names, settings.ganeti.release, settings.ganeti.allow_uncopied) == (
        True,
        "3.0.2",
        False,
    )
    assert (settings.rapid.ganeti_rights, settings.rapid.only_on_master, settings.access.trusted) == (True, True, (0,))


def _ignored(cluster: Cluster, name: str) -> bool:
    return "signal.ignored" in cluster.log(name)
