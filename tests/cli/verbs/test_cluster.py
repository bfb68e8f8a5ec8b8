"""`gnt-cluster info`, `verify`, `watcher` and `redist-conf`. Source: cli.md 5; wconfd.md 2.2."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from common.access import Role
from common.clusterinit import create_cluster
from common.errors import ConfigVerifyError
from common.paths import Paths
from protocol.luxi.queue import SetWatcherPause
from protocol.peer import Peer
from protocol.serving.route import Route
from protocol.wconfd.config import ListNodesBehind, NodeBehind, VerifyConfig
from tests.cli.command import Ended, normalised, run
from tests.cli.fakeluxid import FakeLuxid, serving

Start = Callable[..., FakeLuxid]


@pytest.fixture
def cluster(tmp_path: Path) -> Callable[..., Ended]:
    """Run `gnt-cluster` against the root `tmp_path`."""
    return lambda *words: run("gnt-cluster", "--root", tmp_path, *words)


def test_info_tells_the_parameters_in_the_form_of_ganetis_command(
    start_luxid: Start, cluster: Callable[..., Ended]
) -> None:
    start_luxid()

    ended = cluster("info", "--full")

    assert (ended.code, ended.err) == (0, "")
    lines = ended.out.splitlines()
    assert lines[0] == "Cluster name: lab"
    assert lines[lines.index("Hypervisor parameters: ") :][:4] == [
        "Hypervisor parameters: ",
        "  kvm: ",
        "    acpi: True",
        "    boot_order: disk",
    ]
    assert "  maximal number of jobs running simultaneously: 20" in lines
    assert "  maximal number of jobs that wait or run: 100000" in lines


def test_info_is_short_unless_the_installation_takes_the_place_of_ganetis(
    start_luxid: Start, cluster: Callable[..., Ended], tmp_path: Path
) -> None:
    start_luxid()

    short, full = cluster("info").out, cluster("info", "--full").out
    (tmp_path / "gantry.toml").write_text("[ganeti]\nprocess_names = true\n")

    assert [line.partition(":")[0] for line in short.splitlines()] == [
        "Cluster name",
        "Cluster UUID",
        "Creation time",
        "Modification time",
        "Master node",
        "Tags",
        "maximal number of jobs running simultaneously",
        "maximal number of jobs that wait or run",
    ]
    assert {line.strip() for line in short.splitlines()} < {line.strip() for line in full.splitlines()}
    assert cluster("info").out == full


def test_info_as_json_is_the_answer_of_the_wire(start_luxid: Start, cluster: Callable[..., Ended]) -> None:
    start_luxid()

    assert json.loads(cluster("info", "--output", "json").out)["max_running_jobs"] == 20


@contextmanager
def daemons(paths: Paths, *problems: str) -> Iterator[None]:
    """All sockets are there, and wconfd finds these problems."""

    async def verify(_: Any, __: Peer) -> Any:
        if problems:
            raise ConfigVerifyError("the configuration is inconsistent", problems)
        return ()

    paths.make_folders()
    create_cluster(paths, "lab", "n1")
    paths.version_file.write_text("1\n")
    paths.serial_file.write_text("7\n")
    with ExitStack() as stack:
        stack.enter_context(serving(paths.wconfd_socket, [Route(VerifyConfig, verify, role=Role.READ)]))
        for path in (paths.query_socket, paths.forkserver_socket):
            stack.enter_context(serving(path, []))
        yield


def test_verify_of_a_sound_cluster_is_a_table_of_ok(tmp_path: Path, cluster: Callable[..., Ended]) -> None:
    with daemons(Paths.under_root(tmp_path)):
        ended = cluster("verify")

    assert ended == Ended(
        0,
        """\
CHECK          RESULT
configuration  ok
config.data    ok
locks.data     ok
queue          ok
sockets        ok
livelocks      ok
disk           ok
processes      ok
lost jobs      ok
""",
        "",
    )


def test_verify_lists_every_problem(tmp_path: Path, cluster: Callable[..., Ended]) -> None:
    paths = Paths.under_root(tmp_path)
    with daemons(paths, "node 'a' has no group", "node 'b' has no group"):
        paths.config_data.write_text("{}")
        paths.locks_data.write_text("{")
        paths.version_file.write_text("2\n")
        paths.serial_file.unlink()
        paths.forkserver_socket.unlink()
        paths.livelocks.chmod(0o777)
        text = cluster("verify")
        as_json = json.loads(cluster("verify", "--output", "json").out)

    assert text.code == 1
    assert text.err == "error: 8 problems found; fix them and run this again\n"
    rows = [line.split(maxsplit=1) for line in text.out.replace(str(tmp_path), "ROOT").splitlines()]
    assert [row[0] for row in rows[1:]] == [
        *("configuration", "configuration", "config.data", "locks.data", "queue", "queue", "sockets", "livelocks"),
        *("disk", "processes", "lost"),
    ]
    assert rows[1][1] == "node 'a' has no group"
    assert rows[3][1].startswith("'ROOT/lib/config.data': invalid configuration: ")
    assert rows[4][1].startswith("'ROOT/lib/locks.data': not JSON: ")
    assert rows[5][1] == "'ROOT/lib/queue/version': the queue has version '2', expected 1"
    assert rows[6][1] == "'ROOT/lib/queue/serial': no such file or directory"
    assert rows[7][1].startswith("forkserver does not answer at ROOT/run/socket/gantry-forkserver: ")
    assert rows[8][1] == "'ROOT/run/livelocks' can be written by everybody; take that away with: chmod o-w " + (
        "ROOT/run/livelocks"
    )
    assert as_json["configuration"] == ["node 'a' has no group", "node 'b' has no group"]


def test_verify_tells_of_files_that_are_no_text(tmp_path: Path, cluster: Callable[..., Ended]) -> None:
    paths = Paths.under_root(tmp_path)
    with daemons(paths):
        paths.version_file.write_bytes(b"\xff\xfe")
        paths.serial_file.write_bytes(b"\x80")
        ended = cluster("verify", "--output", "json")

    strange = "\N{REPLACEMENT CHARACTER}"
    assert ended.code == 1
    assert json.loads(ended.out)["queue"] == [
        f"'{paths.version_file}': the queue has version '{2 * strange}', expected 1",
        f"'{paths.serial_file}': expected the last job id, got '{strange}'",
    ]


def test_verify_without_daemons_still_looks_at_the_files(tmp_path: Path, cluster: Callable[..., Ended]) -> None:
    with daemons(Paths.under_root(tmp_path)):
        pass

    ended = cluster("verify")

    assert ended.code == 1
    assert ended.out.splitlines()[1:4] == [
        f"configuration  wconfd is not running; start it with: gantry --root {tmp_path} up",
        "config.data    ok",
        "locks.data     ok",
    ]


def test_the_watcher_is_paused_and_goes_on(start_luxid: Start, cluster: Callable[..., Ended]) -> None:
    luxid = start_luxid()

    before = time.time()
    paused, told = cluster("watcher", "pause", "2h"), cluster("watcher", "info")
    resumed, after = cluster("watcher", "continue"), cluster("watcher", "info", "--output", "json")

    assert normalised(paused.out) == normalised(told.out) == "The watcher is paused until CLOCK\n"
    assert resumed == Ended(0, "The watcher is not paused\n", "")
    assert after == Ended(0, "null\n", "")
    pause = next(call for call in luxid.calls if isinstance(call, SetWatcherPause))
    assert pause.until is not None
    assert before + 7200 <= pause.until <= time.time() + 7200


def test_a_pause_wants_to_know_how_long(start_luxid: Start, cluster: Callable[..., Ended]) -> None:
    start_luxid()

    assert cluster("watcher", "pause").err.startswith("error: how long shall the watcher rest? write it as in: ")
    assert cluster("watcher", "info", "2h").err.startswith("error: 'info' takes no duration, got '2h'")


def test_init_as_json_tells_what_was_made(tmp_path: Path) -> None:
    ended = run("gnt-cluster", "--root", tmp_path / "r", "init", "lab", "--node", "web1", "--output", "json")

    assert ended.code == 0
    assert json.loads(ended.out) == {"name": "lab", "node": "web1", "data": str(tmp_path / "r" / "lib")}


@pytest.mark.parametrize(
    ("words", "name"),
    [(["init", ""], "cluster can be named ''"), (["init", "a b"], "cluster can be named 'a b'")]
    + [(["init", "lab", "--node", node], f"node can be named {node!r}") for node in ("x/y", "", "-n")],
)
def test_init_refuses_a_name_that_nothing_can_have(tmp_path: Path, words: list[str], name: str) -> None:
    ended = run("gnt-cluster", "--root", tmp_path / "r", *words)

    assert (ended.code, ended.out) == (2, "")
    assert ended.err == (
        f"error: no {name}; a name has letters, digits, '.', '-' and '_', and begins with a letter or digit\n"
    )
    assert not (tmp_path / "r").exists()


def test_modify_needs_something_to_change_and_numbers_above_zero(cluster: Callable[..., Ended]) -> None:
    assert cluster("modify").err.startswith("error: nothing to change; name a limit, as in: gnt-cluster modify --max")
    assert "0 is not in the range" in cluster("modify", "--max-running-jobs", "0").err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--no-lvm-storage", "--vg-name", "xenvg"), "--no-lvm-storage and --vg-name exclude each other"),
        (("--no-drbd-storage", "--drbd-usermode-helper", "/x"), "--no-drbd-storage and --drbd-usermode-helper exclude"),
        (("--ipolicy-std-specs", "cpu-count=2.7"), "'2.7' is not a whole number"),
        (("--ipolicy-std-specs", "cpu-count=inf"), "'inf' is not a whole number"),
        (("--data-collector-interval", "lv=inf"), "'inf' is not a number of seconds from 0 to 1000000000000"),
    ],
)
def test_modify_refuses_values_that_nothing_can_have(
    cluster: Callable[..., Ended], words: tuple[str, ...], message: str
) -> None:
    """No daemon is asked: there is none."""
    ended = cluster("modify", *words)

    assert (ended.code, ended.out) == (2, "")
    assert message in ended.err


@pytest.mark.parametrize(
    ("words", "options"),
    [
        (("--list", "--revoke", "abcdefgh"), "--list and --revoke"),
        (("--revoke", "abcdefgh", "--readd", "web2"), "--revoke and --readd"),
        (("--list", "--expires", "5m"), "--list and --expires"),
    ],
)
def test_a_join_token_is_made_listed_or_revoked(
    cluster: Callable[..., Ended], words: tuple[str, ...], options: str
) -> None:
    ended = cluster("join-token", *words)

    assert (ended.code, ended.out) == (2, "")
    assert ended.err == f"error: {options} exclude each other; give one of them\n"


def test_verify_names_the_nodes_that_the_configuration_does_not_reach(
    tmp_path: Path, cluster: Callable[..., Ended]
) -> None:
    paths = Paths.under_root(tmp_path)

    async def nodes_behind(_: Any, __: Peer) -> Any:
        sent = NodeBehind(name="n3", lacks=("ssconf",), behind_s=0.1)
        return (NodeBehind(name="n2", lacks=("ssconf", "config.data"), behind_s=12.4, reason="it is off"), sent)

    with daemons(paths):
        (tmp_path / "gantry.toml").write_text('[cluster]\nreplication = "nodes"\n')
        paths.wconfd_socket.unlink()
        with serving(paths.wconfd_socket, [Route(ListNodesBehind, nodes_behind, role=Role.READ)]):
            found = json.loads(cluster("verify", "--output", "json").out)

    assert found["copies"] == ["node 'n2' lacks ssconf and config.data for 12 s: it is off"]


def test_redist_conf_submits_a_job(start_luxid: Start, cluster: Callable[..., Ended]) -> None:
    luxid = start_luxid()

    assert cluster("redist-conf", "--submit") == Ended(0, "", "JobID: 1\n")

    op = dict(luxid.calls[0].job[0])
    assert [entry[0] for entry in op.pop("reason")] == ["gantry:login", "gnt:client:gnt-cluster"]
    assert op == {"OP_ID": "OP_CLUSTER_REDIST_CONF"}


def test_verify_on_a_node_that_is_not_the_master_asks_none_of_the_masters_daemons(
    tmp_path: Path, cluster: Callable[..., Ended]
) -> None:
    paths = Paths.under_root(tmp_path)
    with daemons(paths):
        pass
    (tmp_path / "gantry.toml").write_text('[cluster]\nreplication = "nodes"\nnode_name = "n2"\n')
    for name, content in (("master_node", "n1\n"), ("master_candidates", "n1\nn2\n")):
        # as it is written, nobody but root may write into it
        paths.ssconf_file(name).unlink(missing_ok=True)
        paths.ssconf_file(name).write_text(content)

    found = json.loads(cluster("verify", "--output", "json").out)

    assert (found["configuration"], found["sockets"]) == ([], [])
    assert found["notes"]["configuration"] == ["this node is not the master; n1 is; run this there, too"]
