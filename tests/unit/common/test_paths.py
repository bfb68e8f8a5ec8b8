"""Paths are Ganeti's inside the three folders; folders are made with their modes."""

import os
import stat
from pathlib import Path

import attrs
import pytest

from common.errors import InvalidRequest
from common.paths import Paths

PATHS = Paths(Path("/d"), Path("/r"), Path("/l"))


def test_a_root_holds_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    paths = Paths.under_root(Path("demo/../here"))

    assert paths == Paths(tmp_path / "here/lib", tmp_path / "here/run", tmp_path / "here/log")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (PATHS.config_data, "/d/config.data"),
        (PATHS.locks_data, "/d/locks.data"),
        (PATHS.last_epoch, "/d/epoch.luxid"),
        (PATHS.may_run_data, "/d/ghosts.data"),
        (PATHS.tempres_data, "/d/tempres.data"),
        (PATHS.schedules_data, "/d/schedules.data"),
        (PATHS.resources_data, "/d/resources.data"),
        (PATHS.watcher_pause, "/d/watcher.pause"),
        (PATHS.ssconf_file("node_list"), "/d/ssconf_node_list"),
        (PATHS.job_file(12), "/d/queue/job-12"),
        (PATHS.archived_job_file(9_999), "/d/queue/archive/0/job-9999"),
        (PATHS.archived_job_file(10_000), "/d/queue/archive/1/job-10000"),
        (PATHS.serial_file, "/d/queue/serial"),
        (PATHS.version_file, "/d/queue/version"),
        (PATHS.drain_file, "/d/queue/drain"),
        (PATHS.queue_lock, "/d/queue/lock"),
        (PATHS.livelocks, "/r/livelocks"),
        (PATHS.messages, "/r/luxidmessages"),
        (PATHS.query_socket, "/r/socket/ganeti-query"),
        (PATHS.wconfd_socket, "/r/socket/ganeti-wconfd"),
        (PATHS.pid_file("wconfd"), "/r/ganeti-wconfd.pid"),
        (PATHS.log_file("luxid"), "/l/luxi-daemon.log"),
        (PATHS.log_file("wconfd"), "/l/wconf-daemon.log"),
        (PATHS.log_file("forkserver"), "/l/jobs.log"),
    ],
)
def test_names_are_those_of_ganeti(path: Path, expected: str) -> None:
    assert path == Path(expected)


def test_what_is_ours_lies_outside_ganetis_queue() -> None:
    for path in (PATHS.output_file(7), PATHS.damaged):
        assert PATHS.data in path.parents
        assert PATHS.queue not in path.parents
    assert PATHS.output in PATHS.output_file(7).parents


def test_the_supervisor_has_places_of_its_own() -> None:
    assert PATHS.supervisor_pid_file == Path("/r/gantry-supervisor.pid")
    assert PATHS.notify_socket("luxid") == Path("/r/socket/notify-luxid")
    assert PATHS.supervisor_log == Path("/l/gantry-supervisor.log")
    assert PATHS.commands_log == Path("/l/commands.log")


def test_paths_cannot_be_changed() -> None:
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        PATHS.data = Path("/other")  # type: ignore[misc]


def test_folders_are_made_with_the_modes_of_the_sheets(tmp_path: Path) -> None:
    paths = Paths.under_root(tmp_path / "deep" / "root")
    old_umask = os.umask(0o077)
    try:
        paths.make_folders()
    finally:
        os.umask(old_umask)

    modes = {
        folder: stat.S_IMODE(folder.stat().st_mode)
        for folder in (paths.queue, paths.archive, paths.livelocks, paths.messages, paths.sockets, paths.run)
    }
    assert [oct(mode) for mode in modes.values()] == ["0o750", "0o750", "0o750", "0o750", "0o750", "0o755"]
    assert all(folder.is_dir() for folder in (paths.data, paths.log, paths.output, paths.damaged))


def test_a_new_folder_for_data_is_synced_into_the_one_above_it_and_later_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = Paths.under_root(tmp_path)
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.readlink(f"/proc/self/fd/{fd}")))

    paths.make_folders()
    paths.make_folders()

    assert sorted(synced) == sorted(map(str, (tmp_path, paths.data, paths.queue)))
    paths.submissions.rmdir()
    paths.make_folders()
    assert synced[3:] == [str(paths.data)]


def test_folders_that_exist_keep_their_modes(tmp_path: Path) -> None:
    paths = Paths.under_root(tmp_path)
    paths.make_folders()
    paths.queue.chmod(0o700)

    paths.make_folders()

    assert stat.S_IMODE(paths.queue.stat().st_mode) == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_folders_that_root_makes_belong_to_the_user_whose_data_it_is(tmp_path: Path) -> None:
    paths = Paths.under_root(tmp_path)
    paths.data.mkdir()
    os.chown(paths.data, 65534, 65533)

    paths.make_folders()

    owners = {(folder.stat().st_uid, folder.stat().st_gid) for folder in paths.folders()}
    assert owners == {(65534, 65533)}


def test_a_daemon_with_a_user_of_its_own_uses_its_own_folders_where_there_are_some(tmp_path: Path) -> None:
    paths = Paths.under_root(tmp_path)
    before = paths.pid_file("rapid"), paths.log_file("rapid"), paths.socket("rapid")

    for name in ("run-rapid", "log-rapid", "run-luxid"):
        (tmp_path / name).mkdir()

    assert before == (paths.run / "ganeti-rapi.pid", paths.log / "rapi-daemon.log", paths.sockets / "gantry-rapid")
    own = tmp_path / "run-rapid"
    assert (paths.pid_file("rapid"), paths.socket("rapid")) == (own / "ganeti-rapi.pid", own / "gantry-rapid")
    assert paths.log_file("rapid") == tmp_path / "log-rapid" / "rapi-daemon.log"
    # only those that may have one
    assert paths.pid_file("luxid").parent == paths.pid_file("mond").parent == paths.run


def test_a_file_in_the_place_of_a_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "queue").touch()

    with pytest.raises(FileExistsError):
        Paths.under_root(tmp_path).make_folders()


def test_a_socket_path_the_kernel_cannot_take_is_refused_with_its_length() -> None:
    # '/' + root + '/run/socket/gantry-forkserver', the longest of the three
    rest = len("//run/socket/gantry-forkserver")
    longest = Paths.under_root(Path("/" + "x" * (107 - rest)))
    longest.check_socket_paths()

    # an 'ä' counts as two bytes
    too_long = Paths.under_root(Path("/" + "x" * (107 - rest - 1) + "ä"))
    with pytest.raises(InvalidRequest, match=r"108 bytes, at most 107 are possible.*shorter root"):
        too_long.check_socket_paths()
