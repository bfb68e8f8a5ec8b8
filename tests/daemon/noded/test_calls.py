"""Procedures of a real node daemon (noded.md 4 to 6)."""

import fcntl
import json
import os
import stat
import time
from pathlib import Path

from common.ids import JobId
from common.nodes.certificates import digest_of, is_signed_by
from tests.support.machines.noded import RECORDED_WITH_INSTANCES, recorded_calls
from tests.support.machines.nodes import NAME, Node
from tests.support.wait import wait_until

JOB = '{"id":7}'

REPLIES: list[tuple[str, object, object]] = [
    ("version", [], 3_000_000),
    ("version", {}, 3_000_000),
    ("export_list", {}, []),
    ("master_node_name", [], "node1.test"),
    ("all_instances_info", [["fake"], {"fake": {}}], {}),
    ("instance_list", [["fake"], {"fake": {}}], []),
    ("instance_info", ["web1", "fake", {}], {}),
    ("instance_console_info", {}, {}),
    ("node_ensure_daemon", ["kvmd", True], False),
    ("node_has_ip_address", ["127.0.0.1"], True),
    ("node_has_ip_address", ["192.0.2.1"], False),
    ("bridges_exist", [[]], None),
    ("hooks_runner", ["instance-add", "pre", {}], []),
    ("test_delay", [0.01], None),
    ("get_watcher_pause", [], None),
]
REFUSALS: list[tuple[str, object, str]] = [
    ("test_delay", [-1], "at least 0"),
    ("instance_start", [{}, False, []], "needs a hypervisor"),
    ("lv_list", ["xenvg"], "needs a storage backend"),
    ("node_start_master_daemons", [True], "this node is not the master by its files of ssconf"),
    ("restricted_command", ["ls"], "not carried out by this node daemon"),
    ("bridges_exist", [["no-such-bridge0"]], "no-such-bridge0"),
    ("node_info", [[["rados", "pool", []]], None], "needs a storage backend"),
]


def test_a_job_file_is_written_moved_to_the_archive_and_purged(own: Node) -> None:
    archived = own.paths.archived_job_file(JobId(7))

    assert own.call("jobqueue_update", [own.job_name(7), [0, JOB]]) == [True, None]
    assert own.paths.job_file(JobId(7)).read_text() == JOB
    assert stat.S_IMODE(own.paths.job_file(JobId(7)).stat().st_mode) == 0o640

    assert own.call("jobqueue_rename", [[[own.job_name(7), own.name(archived)]]]) == [True, [None]]
    assert archived.read_text() == JOB
    assert stat.S_IMODE(archived.parent.stat().st_mode) == 0o750

    (own.paths.queue / "job-8").write_text("x")
    (own.paths.archive / "job-1").write_text("x")
    elsewhere = own.root / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "job-10000").write_text("x")
    (own.paths.archive / "1").symlink_to(elsewhere)
    assert own.call("jobqueue_purge", []) == [True, None]
    assert sorted(os.listdir(own.paths.queue)) == ["archive", "lock"]
    assert [path for path in own.paths.archive.rglob("*") if path.is_file()] == []
    # a link leads elsewhere
    assert (elsewhere / "job-10000").exists()


def test_the_first_missing_file_ends_a_move_and_earlier_ones_stay_moved(node: Node) -> None:
    for number in (1, 3):
        node.call("jobqueue_update", [node.job_name(number), [0, JOB]])
    moves = [[node.job_name(n), node.name(node.paths.archived_job_file(JobId(n)))] for n in (1, 2, 3)]

    is_done, text = node.call("jobqueue_rename", [moves])

    assert not is_done
    assert "job-2" in text
    assert [node.paths.job_file(JobId(n)).exists() for n in (1, 3)] == [False, True]


def test_the_drain_flag_is_set_and_taken_away_as_often_as_told(node: Node) -> None:
    for flag in (True, True, False, False):
        assert node.call("jobqueue_set_drain_flag", [flag]) == [True, None]
        assert node.paths.drain_file.exists() == flag


def test_a_configuration_comes_with_its_mode_and_times(node: Node) -> None:
    name = node.name(node.paths.config_data)
    rest = [0o100640, "gnt-masterd", "gnt-confd", 1400000000.25, 1400000000.5]

    assert node.call("upload_file_single", [name, [0, "{}"], *rest]) == [True, None]

    status = node.paths.config_data.stat()
    assert node.paths.config_data.read_text() == "{}"
    assert (stat.S_IMODE(status.st_mode), status.st_mtime) == (0o640, 1400000000.5)
    assert node.call("upload_file", [[name, [0, "[]"], *rest]]) == [True, None]
    assert node.paths.config_data.read_text() == "[]"


def test_a_file_that_another_process_has_locked_is_not_replaced(node: Node) -> None:
    before = node.paths.config_data.read_bytes()
    with node.paths.config_data.open("rb") as holder:
        fcntl.flock(holder, fcntl.LOCK_EX)
        arguments = [node.name(node.paths.config_data), [0, "{}"], None, "root", "root", None, None]
        is_done, text = node.call("upload_file_single", arguments)

    assert (is_done, node.paths.config_data.read_bytes()) == (False, before)
    assert "locked by another process" in text


def test_ssconf_is_written_by_key_with_a_newline_and_empty_for_no_lines(node: Node) -> None:
    values = {"node_list": ["node1", "node2"], "cluster_tags": [], "networks": "lab"}

    assert node.call("write_ssconf_files", [values]) == [True, None]

    files = [node.paths.ssconf_file(key) for key in values]
    assert [file.read_text() for file in files] == ["node1\nnode2\n", "", "lab\n"]
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o444}
    assert node.paths.ssconf_file("master_node").read_text() == "node1.test\n"


def test_an_unknown_key_or_a_long_value_of_ssconf_changes_nothing(node: Node) -> None:
    assert not node.call("write_ssconf_files", [{"cluster_name": "x", "../evil": ["x"]}])[0]
    assert not node.call("write_ssconf_files", [{"cluster_name": "x", "node_list": ["n" * 131_073]}])[0]
    assert node.paths.ssconf_file("cluster_name").read_text() == "cluster.test\n"


def test_facts_of_the_node(node: Node) -> None:
    is_done, (boot_id, storage, (facts,)) = node.call("node_info", [[["file", "/", []]], [["fake", {}]]])

    assert is_done
    assert boot_id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert storage[0]["storage_size"] >= storage[0]["storage_free"] > 0
    assert facts["memory_total"] == facts["memory_free"] + facts["memory_dom0"]
    assert facts["cpu_total"] == os.cpu_count()
    assert facts["cpu_nodes"] == len([name for name in os.listdir("/sys/devices/system/node") if name[4:].isdigit()])
    assert 1 <= facts["cpu_sockets"] <= facts["cpu_total"]
    assert node.call("node_info", [None, None]) == [True, [boot_id, None, None]]


def test_other_procedures_reply_or_are_refused_with_the_reason(node: Node) -> None:
    for procedure, arguments, payload in REPLIES:
        assert node.call(procedure, arguments) == [True, payload], procedure
    for procedure, arguments, text in REFUSALS:
        is_done, reason = node.call(procedure, arguments)
        assert not is_done, procedure
        assert text in reason


def test_the_watchers_pause_is_kept_as_whole_seconds(node: Node) -> None:
    until = time.time() + 1000.5

    assert node.call("set_watcher_pause", [until]) == [True, None]
    assert node.paths.watcher_pause.read_text() == f"{int(until)}\n"
    assert node.call("get_watcher_pause", []) == [True, int(until)]
    assert node.call("set_watcher_pause", [None]) == [True, None]
    assert not node.paths.watcher_pause.exists()


def test_the_digest_of_the_nodes_certificate_is_told_also_of_a_new_one(node: Node) -> None:
    old = digest_of(node.client_pem)

    assert node.call("node_crypto_tokens", [[["ssl", "get", {}]]]) == [True, [["ssl", old]]]
    is_done, ((kind, new),) = node.call("node_crypto_tokens", [[["ssl", "create", {}]]])

    content = node.paths.client_pem.read_bytes()
    assert (is_done, kind, new) == (True, "ssl", digest_of(content))
    assert new != old
    assert is_signed_by(content, node.server_pem)


def test_the_checks_of_a_verification_are_made_and_unknown_ones_left_out(node: Node) -> None:
    file = node.name(node.paths.server_pem)
    asked = {
        "filelist": [file, node.name(node.paths.data / "not-there")],
        "version": None,
        "time": None,
        "client-cert": None,
        "nodesetup": None,
        "node-net-test": [[[NAME, "127.0.0.1", "127.0.0.1"], ["node3.test", "127.0.0.77", "127.0.0.77"]], [NAME]],
        "master-ip": [NAME, "127.0.0.1", [NAME]],
        "instancelist": ["fake"],
        "drbd-list": None,
    }

    is_done, found = node.call("node_verify", [asked, "cluster.test", {}])

    assert is_done
    assert list(found["filelist"]) == [file]
    assert found["version"][0] == 3_000_000
    assert abs(found["time"][0] - time.time()) < 3600
    assert found["client-cert"] == [None, digest_of(node.paths.client_pem.read_bytes())]
    assert found["nodesetup"] == []
    assert list(found["node-net-test"]) == ["node3.test"]
    assert found["master-ip"] is True
    assert found["instancelist"] == []
    assert "drbd-list" not in found


def test_the_checks_that_a_real_ganeti_asks_for_are_made(node: Node) -> None:
    (recorded,) = [call for call in recorded_calls(RECORDED_WITH_INSTANCES) if call.procedure == "node_verify"]
    # files lie elsewhere here
    data = node.name(node.paths.data).encode()
    request = recorded.request.replace(b"10.77.0.", b"127.0.0.").replace(b"node3.rg.test", NAME.encode())
    for folder in (b"/var/lib/ganeti", b"/etc/ganeti"):
        request = request.replace(folder, data)

    _, body = node.send("node_verify", request)

    (was_done, expected), (is_done, found) = json.loads(recorded.reply), json.loads(body)
    assert (is_done, was_done) == (True, True), found
    # of hypervisors, operating systems and ssh, which are not here
    assert expected.keys() - found.keys() == {"hypervisor", "hvparms", "oslist", "nodelist"}
    assert {key: type(expected[key]) for key in found} == {key: type(found[key]) for key in found}


def test_others_are_reached_only_from_the_nodes_that_are_asked_to_and_instances_looked_for_where_they_can_be(
    node: Node,
) -> None:
    asked = {
        "node-net-test": [[["node3.test", "127.0.0.77", "127.0.0.77"]], ["node1.test"]],
        "master-ip": [NAME, "127.0.0.77", ["node1.test"]],
        "instancelist": ["fake"],
        "nonvmnodes": [NAME],
    }

    assert node.call("node_verify", [asked, "cluster.test", {}]) == [True, {"node-net-test": {}, "master-ip": None}]


def test_a_candidate_that_is_demoted_keeps_a_copy_of_its_configuration(own: Node) -> None:
    content = own.paths.config_data.read_bytes()

    assert own.call("node_demote_from_mc", []) == [True, None]

    assert not own.paths.config_data.exists()
    (copy,) = own.paths.data.glob("config.data.backup-*")
    assert copy.read_bytes() == content


def test_the_master_is_not_demoted_and_does_not_leave(node: Node) -> None:
    node.call("write_ssconf_files", [{"master_node": [NAME]}])
    before = sorted(node.paths.data.iterdir())

    for procedure, arguments in (("node_demote_from_mc", []), ("node_leave_cluster", [False])):
        is_done, text = node.call(procedure, arguments)
        assert not is_done
        assert "is the master" in text
    assert sorted(node.paths.data.iterdir()) == before
    node.call("write_ssconf_files", [{"master_node": ["node1.test"]}])


def test_a_node_that_leaves_replies_removes_its_files_and_ends(own: Node) -> None:
    paths = own.paths
    beside = [paths.waits_file(7), paths.job_log(7), paths.submissions / "key"]
    # another cluster would miss it
    aside = paths.set_aside / "jobs-20260101T000000Z-00ff00" / "queue" / "job-7"
    left = [paths.archived_job_file(7), *beside, aside]
    for path in left:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"secret")

    is_done, _ = own.call("node_leave_cluster", [False])

    daemon = own.cluster.daemons.pop("noded")
    wait_until(lambda: daemon.poll() is not None, what="noded has ended")
    assert is_done
    assert [path.name for path in own.paths.data.iterdir() if path.is_file()] == []
    assert [path for path in left if path.exists()] == []
    assert daemon.returncode == 0


def test_the_queue_of_a_new_node_gets_version_and_serial(idle: Node) -> None:
    for path in (idle.paths.config_data, idle.paths.version_file, idle.paths.serial_file):
        path.unlink()

    idle.start()

    assert (idle.paths.version_file.read_text(), idle.paths.serial_file.read_text()) == ("1\n", "0\n")


def test_a_serial_that_is_lost_beside_a_configuration_is_not_made_anew(idle: Node) -> None:
    idle.paths.version_file.unlink()
    idle.paths.serial_file.unlink()

    idle.start()

    assert idle.paths.version_file.read_text() == "1\n"
    assert not idle.paths.serial_file.exists()


def test_a_node_that_has_not_heard_of_a_master_names_none(own: Node) -> None:
    own.paths.ssconf_file("master_node").unlink()

    is_done, text = own.call("master_node_name", [])

    assert not is_done
    assert text.startswith("this node has not heard of a master: ")
    assert "ssconf_master_node' is missing" in text


def test_an_unknown_procedure_is_a_page_of_html(node: Node) -> None:
    status, body = node.send("no_such_thing", json.dumps([]).encode())

    assert status == 404
    assert body.startswith(b"<html>")
