"""Users by their names: in the history, and in refusals, to a user who is not root."""

import os
import pwd
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.cluster.main import group as gnt_cluster
from cli.program import exit_code
from common.ids import JobId
from protocol.luxi.jobs import CancelJob
from tests.cli.command import Ended, run
from tests.daemon.luxid.ops import command
from tests.support.accounts.users import ALICE, call_as, needs_root, uid_of
from tests.support.cluster import Cluster

pytestmark = needs_root


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    # pytest's own folders are closed to other users
    folder = Path(tempfile.mkdtemp(prefix="gantry-names-"))
    folder.chmod(0o755)
    try:
        with Cluster(folder / "root", settings=f'[access]\nsubmit = ["{ALICE}"]\n') as cluster:
            cluster.start("wconfd", "luxid", "forkserver")
            yield cluster
    finally:
        shutil.rmtree(folder)


def run_as_alice(cluster: Cluster, folder: Path, *words: str) -> Ended:
    """Run gnt-cluster in a forked process, whose modules are loaded: others may not read the interpreter's folder."""
    files = [os.open(folder / name, os.O_CREAT | os.O_RDWR) for name in ("out", "err")]
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            for number, file in enumerate(files, 1):
                os.dup2(file, number)
            os.setgroups([])
            os.setgid(pwd.getpwnam(ALICE).pw_gid)
            os.setuid(uid_of(ALICE))
            sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
            code = exit_code(gnt_cluster, "gnt-cluster", ["--root", str(cluster.root), *words])
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    for file in files:
        os.close(file)
    return Ended(os.waitstatus_to_exitcode(status), (folder / "out").read_text(), (folder / "err").read_text())


def test_history_names_the_user_who_asked_for_the_end(cluster: Cluster) -> None:
    job_id = cluster.submit(command("sleep", "600"))
    cluster.wait(job_id, status="running")
    mine = cluster.submit(command("true"))
    cluster.wait(mine)
    call_as("root", cluster, CancelJob(JobId(job_id), kill=True))
    cluster.wait(job_id)

    told = run("gnt-job", "--root", cluster.root, "history", "--no-headers")

    assert "job was killed on request of user root" in told.out


def test_a_refusal_names_the_user_and_says_what_the_call_does(cluster: Cluster, tmp_path: Path) -> None:
    refused = run_as_alice(cluster, tmp_path, "queue", "drain")

    assert refused.code == 1
    assert refused.err.startswith(
        "error: SetDrainFlag (close or open the queue to new jobs) needs the role 'operate', "
        f"and user {ALICE} has only 'submit'; "
    )
