"""What a user is told when the server of `--remote` is away, is another, or does not know him."""

import http.server
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from common.nodes.certificates import fingerprint_of
from common.webaccess.tokensfile import TokensFile, Wish
from tests.cli.command import Background, Ended, run
from tests.support.machines.nodes import HOST, free_port
from tests.support.rapid import Web


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    with Web(tmp_path_factory.mktemp("web")) as web:
        web.start()
        yield web


@pytest.fixture(scope="module")
def token(web: Web) -> str:
    return str(TokensFile(web.paths).create(Wish("ci", ("operate",), None, "root"), time.time())[1])


@pytest.fixture
def environment(web: Web, token: str) -> dict[str, str]:
    return {"GANTRY_REMOTE": web.url, "GANTRY_CA": str(web.paths.rapi_pem), "GANTRY_TOKEN": token}


def _list(environment: dict[str, str], *words: str) -> Ended:
    ended = run("gnt-job", *words, "list", env=environment)
    assert "Traceback" not in ended.err
    assert ended.err.count("\n") <= 1
    return ended


def test_a_pinned_certificate_needs_no_authority(web: Web, environment: dict[str, str]) -> None:
    environment["GANTRY_CA"] = ""
    fingerprint = fingerprint_of(web.paths.rapi_pem.read_bytes())

    assert _list(environment, "--fingerprint", fingerprint).code == 0
    other = _list(environment, "--fingerprint", "sha256:" + "0" * 64)

    assert other.code == 3
    assert "not the one that was pinned; nothing was sent" in other.err


def test_an_unknown_certificate_is_told_with_its_fingerprint(environment: dict[str, str]) -> None:
    told = _list(environment | {"GANTRY_CA": ""})

    assert told.code == 3
    assert "nobody known here has signed the certificate" in told.err
    pin = told.err.split("add ")[1].split(",")[0].split()
    assert _list(environment | {"GANTRY_CA": ""}, *pin).code == 0


def test_a_token_that_nobody_knows_is_refused_and_not_shown(web: Web, environment: dict[str, str]) -> None:
    told = _list(environment | {"GANTRY_TOKEN": "gantry_secretsecret"})

    assert told.code == 1
    assert f"{web.url} does not know who calls" in told.err
    assert "secretsecret" not in told.err


def test_a_token_without_the_right_is_refused(web: Web, environment: dict[str, str]) -> None:
    reader = TokensFile(web.paths).create(Wish("reader", ("jobs.read",), None), time.time())[1]

    told = run("gnt-job", "cancel", "1", env=environment | {"GANTRY_TOKEN": str(reader)})

    assert told.code == 1
    assert "jobs.cancel" in told.err


def test_a_file_of_others_or_without_a_token_is_told(environment: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("\n")
    path.chmod(0o644)

    told = run("gnt-job", "--token-file", path, "list", env=environment)

    assert told.code == 2
    assert "has no token in its first line" in told.err
    assert told.err.count("chmod 600") == 1


def test_ctrl_c_leaves_the_job_running(environment: dict[str, str]) -> None:
    job_id = run("gnt-job", "run", "--", "sleep", "60", env=environment).out.strip()

    with Background("gnt-job", "watch", job_id, env=environment) as watching:
        assert watching.read_line() == f"Job {job_id}: RUN_COMMAND(sleep 60)\n"
        watching.interrupt()
        ended = watching.end()

    assert ended.code == 130
    assert "goes on" in ended.err
    assert "Traceback" not in ended.err
    assert run("gnt-job", "cancel", "--kill", job_id, env=environment).code == 0


def test_an_address_where_nobody_is_is_told(environment: dict[str, str]) -> None:
    told = _list(environment | {"GANTRY_REMOTE": f"https://{HOST}:{free_port()}"})

    assert told.code == 3
    assert "cannot be reached: connection refused" in told.err


def test_the_page_of_a_proxy_is_not_shown_but_told(environment: dict[str, str]) -> None:
    with _proxy() as url:
        told = _list(environment | {"GANTRY_REMOTE": url})

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


def test_what_is_only_here_is_refused(environment: dict[str, str]) -> None:
    told = run("gnt-job", "run", "--cwd", "relative", "--", "true", env=environment)

    assert told.code == 2
    assert "on the other machine" in told.err


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
