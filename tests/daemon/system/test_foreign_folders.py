"""Folders and sockets that another user planted are not taken over. Source: DESIGN section 4."""

import contextlib
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from common.clusterinit import create_cluster
from common.errors import Denied
from common.ids import JobId
from common.paths import Paths
from common.queue.jobfile import encode_job
from common.queue.jobs import Job, JobOp
from protocol.unixsocket import dial
from tests.cli.command import run
from tests.support.leftovers import processes_under

NOBODY = 65534
only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")


def planted(root: Path, mark: Path) -> Paths:
    """An installation with a job that makes the file `mark`, all of it another user's."""
    paths = Paths.under_root(root)
    create_cluster(paths, "planted", "node1")
    job = Job(JobId(1), (JobOp({"OP_ID": "OP_RUN_COMMAND", "argv": ["touch", str(mark)]}),))
    paths.job_file(1).write_bytes(encode_job(job))
    paths.serial_file.write_bytes(b"1\n")
    return paths


def give_away(root: Path) -> None:
    for folder, _, files in os.walk(root):
        for name in (folder, *(os.path.join(folder, file) for file in files)):
            os.lchown(name, NOBODY, NOBODY)


@only_root
def test_up_refuses_a_root_that_another_user_made_and_runs_nothing_of_it(tmp_path: Path) -> None:
    root, mark = tmp_path / "r", tmp_path / "mark"
    planted(root, mark)
    give_away(root)

    up = run("gantry", "--root", root, "up", "--detach")

    assert up.code == 1
    assert f"'{root}' belongs to user 'nobody'" in up.err
    assert "Traceback" not in up.err
    assert not processes_under(root)
    assert not mark.exists()


@only_root
@pytest.mark.parametrize("module", ["daemons.luxid.main", "daemons.wconfd.main", "daemons.jobproc.forkserver.main"])
def test_a_daemon_refuses_a_root_that_another_user_made(tmp_path: Path, module: str) -> None:
    root = tmp_path / "r"
    planted(root, tmp_path / "mark")
    give_away(root)

    done = subprocess.run(
        [sys.executable, "-P", "-m", module, "--root", str(root)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 1
    assert "belongs to user 'nobody'" in done.stderr


@only_root
def test_a_settings_file_of_another_user_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "r"
    planted(root, tmp_path / "mark")
    (root / "gantry.toml").write_text('[luxid]\nexecutor = ["/bin/false"]\n')
    os.chown(root / "gantry.toml", NOBODY, NOBODY)

    up = run("gantry", "--root", root, "up", "--detach")

    assert up.code == 1
    assert f"'{root}/gantry.toml' belongs to user 'nobody'" in up.err


def test_a_link_in_the_place_of_a_log_is_not_followed(tmp_path: Path) -> None:
    root, victim = tmp_path / "r", tmp_path / "victim"
    paths = planted(root, tmp_path / "mark")
    victim.write_text("precious\n")
    paths.log_file("wconfd").symlink_to(victim)

    up = run("gantry", "--root", root, "up", "--detach")
    # if it is up all the same
    run("gantry", "--root", root, "down")

    assert up.code == 1
    assert f"'{paths.log_file('wconfd')}' leads over a link that is not followed; take the link away" in up.err
    assert victim.read_text() == "precious\n"


def test_umask_0_makes_nothing_that_others_can_write(tmp_path: Path) -> None:
    root = tmp_path / "r"
    try:
        up = run("gantry", "--root", root, "up", "--detach", prelude="import os; os.umask(0)")
        done = run("gnt-job", "--root", root, "run", "--wait", "--", "true", prelude="import os; os.umask(0)")

        assert (up.code, done.code) == (0, 0)
        assert writable_by_others(root) == []
    finally:
        run("gantry", "--root", root, "down", "--jobs")


def writable_by_others(root: Path) -> list[str]:
    found = []
    for folder, folders, files in os.walk(root):
        for path in (Path(folder, name) for name in (*folders, *files)):
            # the daemons run: what was just written may have another name by now
            with contextlib.suppress(FileNotFoundError):
                mode = path.lstat().st_mode
                # the mode of the sockets is the settings' to say: the group may connect
                if mode & (0o002 if stat.S_ISSOCK(mode) else 0o022):
                    found.append(f"{stat.filemode(mode)} {path}")
    return found


def test_a_socket_folder_that_the_group_could_write_is_closed_at_start(tmp_path: Path) -> None:
    root = tmp_path / "r"
    paths = Paths.under_root(root)
    paths.make_folders()
    paths.sockets.chmod(0o770)
    try:
        run("gantry", "--root", root, "up", "--detach")

        assert stat.S_IMODE(paths.sockets.stat().st_mode) == 0o750
    finally:
        run("gantry", "--root", root, "down")


@pytest.fixture
def impostor(tmp_path: Path) -> Iterator[Path]:
    """A socket at which the user 'nobody' listens."""
    path = tmp_path / "ganeti-query"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        # the kernel notes who calls listen()
        os.seteuid(NOBODY)
        listener.listen()
        os.seteuid(0)
        yield path


@only_root
def test_a_client_sends_nothing_to_a_socket_of_another_user(impostor: Path) -> None:
    with pytest.raises(Denied, match=f"luxid is not who listens at {impostor}, but user {NOBODY}"):
        dial(impostor, "luxid")


@only_root
def test_a_socket_of_the_folders_owner_is_the_daemons(impostor: Path) -> None:
    os.chown(impostor.parent, NOBODY, -1)

    dial(impostor, "luxid").close()
