"""What a user is told when the server of `--remote` is away, is another, or does not know him."""

import http.server
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest

from common.nodes.certificates import fingerprint_of
from common.webaccess.tokens import NewToken, TokensFile
from protocol.rapid.clients import conversations
from tests.cli.command import Background, Ended
from tests.cli.remote.place import Capture, Place
from tests.support.machines.nodes import HOST
from tests.support.sockets.ports import free_port
from tests.support.web.rapid import Web


@pytest.fixture
def environment(web: Web, token: str) -> dict[str, str]:
    return {"GANTRY_REMOTE": web.url, "GANTRY_CA": str(web.paths.rapi_pem), "GANTRY_TOKEN": token}


@attrs.frozen
class Caller:
    """Runs gnt-job within this process with variables."""

    capsys: Capture
    monkeypatch: pytest.MonkeyPatch
    environment: Mapping[str, str]

    def run(self, *words: object, **variables: str) -> Ended:
        for name, value in {**self.environment, **variables}.items():
            self.monkeypatch.setenv(name, value)
        ended = Place().run(self.capsys, *words)
        assert "Traceback" not in ended.err
        return ended

    def list(self, *options: object, **variables: str) -> Ended:
        ended = self.run(*options, "list", **variables)
        assert ended.err.count("\n") <= 1
        return ended


@pytest.fixture
def caller(capsys: Capture, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]) -> Caller:
    return Caller(capsys, monkeypatch, environment)


def test_a_pinned_certificate_needs_no_authority(web: Web, caller: Caller) -> None:
    fingerprint = fingerprint_of(web.paths.rapi_pem.read_bytes())

    assert caller.list("--fingerprint", fingerprint, GANTRY_CA="").code == 0
    other = caller.list("--fingerprint", "sha256:" + "0" * 64, GANTRY_CA="")

    assert other.code == 3
    assert "not the one that was pinned; nothing was sent" in other.err


def test_an_unknown_certificate_is_told_with_its_fingerprint(caller: Caller) -> None:
    told = caller.list(GANTRY_CA="")

    assert told.code == 3
    assert "nobody known here has signed the certificate" in told.err
    pin = told.err.split("add ")[1].split(",")[0].split()
    assert caller.list(*pin, GANTRY_CA="").code == 0


def test_a_token_that_nobody_knows_is_refused_and_not_shown(web: Web, caller: Caller) -> None:
    told = caller.list(GANTRY_TOKEN="gantry_secretsecret")

    assert told.code == 1
    assert f"{web.url} does not know who calls" in told.err
    assert "secretsecret" not in told.err


def test_a_caller_without_a_token_is_told_how_to_give_one(web: Web, caller: Caller) -> None:
    told = caller.list(GANTRY_TOKEN="")

    assert told.code == 1
    assert told.err.endswith("; give --token-file FILE, or $GANTRY_TOKEN\n")


def test_an_address_without_tls_is_told(web: Web, caller: Caller) -> None:
    told = caller.list(GANTRY_REMOTE=web.url.replace("https:", "http:"))

    assert told.code == 3
    assert told.err.endswith(" closed the connection before it replied; is it an https:// address?\n")


def test_a_verb_with_many_jobs_needs_one_connection(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    opened, connect = list[object](), socket.create_connection

    def counting(*args: Any, **options: Any) -> socket.socket:
        opened.append(args)
        return connect(*args, **options)

    monkeypatch.setattr(socket, "create_connection", counting)
    told = caller.run("archive", *range(90_001, 90_011))

    assert told.err.count("there is no job") == 10
    assert len(opened) <= 2


def test_a_user_with_a_password_is_told_that_only_a_token_counts(web: Web, caller: Caller) -> None:
    variables = {"GANTRY_REMOTE": web.url.replace("://", "://ada@"), "GANTRY_PASSWORD": "open-sesame"}

    told = caller.list(**variables, GANTRY_TOKEN="")

    assert told.code == 2
    assert "only a token counts there, no password of 'ada'; 'gantry token create' makes one" in told.err
    assert "sesame" not in told.err


def test_a_token_without_the_right_is_refused(web: Web, caller: Caller) -> None:
    reader = TokensFile(web.paths).create(NewToken("reader", ("jobs.read",), None), time.time())[1]

    told = caller.run("cancel", 1, GANTRY_TOKEN=str(reader))

    assert told.code == 1
    assert "jobs.cancel" in told.err


def test_a_file_of_others_or_without_a_token_is_told(caller: Caller, tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("\n")
    path.chmod(0o644)

    told = caller.run("--token-file", path, "list")

    assert told.code == 2
    assert "has no token in its first line" in told.err
    assert told.err.count("chmod 600") == 1


def test_ctrl_c_leaves_the_job_running(web: Web, caller: Caller, environment: dict[str, str]) -> None:
    job_id = caller.run("run", "--", "sleep", "60").out.strip()

    with Background("gnt-job", "watch", job_id, env=environment) as watching:
        assert watching.read_line() == f"Job {job_id}: RUN_COMMAND(sleep 60)\n"
        watching.interrupt()
        ended = watching.end()

    assert ended.code == 130
    assert "goes on" in ended.err
    assert "Traceback" not in ended.err
    assert caller.run("cancel", "--kill", job_id).code == 0
    # the tests after this one list all jobs, and list them twice
    assert web.cluster.wait(int(job_id)) == ["canceled"]


def test_an_address_where_nobody_is_is_told(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversations, "FIRST_PATIENCE_S", 0.1)

    told = caller.list(GANTRY_REMOTE=f"https://{HOST}:{free_port()}")

    assert told.code == 3
    assert "cannot be reached: connection refused" in told.err


def test_the_page_of_a_proxy_is_not_shown_but_told(caller: Caller) -> None:
    with _proxy() as url:
        told = caller.list(GANTRY_REMOTE=url)

    assert told.code == 3
    assert f"{url} does not reply as Gantry does, but by 404 Not Found with text/html" in told.err


@contextmanager
def _proxy() -> Iterator[str]:
    """A server of pages."""

    class Pages(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_error(404)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer((HOST, 0), Pages)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://{HOST}:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize("daemon", ["rapid", "luxid"])
def test_a_watched_job_is_watched_on_when_a_daemon_was_killed(
    web: Web, environment: dict[str, str], tmp_path: Path, daemon: str
) -> None:
    go_on = tmp_path / "go-on"
    script = f"echo begun; until [ -e {go_on} ]; do sleep 0.1; done; echo over"

    with Background("gnt-job", "run", "--wait", "--", "/bin/sh", "-c", script, env=environment) as watching:
        assert watching.read_line() == "begun\n"
        web.cluster.kill(daemon)
        web.start(daemon)
        go_on.touch()
        ended = watching.end()

    assert (ended.code, ended.out) == (0, "over\n")
