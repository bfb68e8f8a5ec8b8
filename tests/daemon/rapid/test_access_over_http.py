"""Who may call, over TLS, with real files and a real luxid. Source: rapi.md section 2; issue 12, deliverable 1."""

import getpass
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import httpx2
import pytest
import trio

from common.webaccess.passwords import hashed
from common.webaccess.tokens import NewToken, TokensFile
from common.webaccess.users import UsersFile
from daemons.rapid.access.passwordchecks import FREE
from tests.support.wait import PATIENCE_S, wait_until
from tests.support.web.rapid import Web

ME = getpass.getuser()
USERS = f"""\
jack {{HA1}}54c12257ee9be413f2f3182435514aae read
jill xyz submit,unix={ME}
jim xyz submit
joan xyz write
none xyz
"""
COMMAND = {"OP_ID": "OP_RUN_COMMAND", "argv": ["echo", "secret argument"], "env": {"KEY": "secret value"}}


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    with Web(tmp_path_factory.mktemp("access")) as web:
        write_users(web, USERS)
        web.start()
        yield web


def write_users(web: Web, content: str | bytes) -> None:
    web.paths.rapi.mkdir(parents=True, exist_ok=True)
    new = web.paths.rapi / "new"
    new.write_bytes(content if isinstance(content, bytes) else content.encode())
    new.rename(web.paths.rapi_users)


def token(web: Web, name: str, *rights: str, lasts_s: float | None = None) -> tuple[str, str]:
    """A new token: its id and its text."""
    made, text = TokensFile(web.paths).create(NewToken(name, rights, lasts_s, ME), time.time())
    return made.id, str(text)


def submitted(client: httpx2.Client) -> int:
    reply = client.post("/3/jobs", json={"jobs": [{"ops": [COMMAND]}]})
    assert reply.status_code == 201, reply.text
    job_id: int = reply.json()["jobs"][0]["id"]
    return job_id


def status(reply: httpx2.Response) -> tuple[int, Any]:
    return reply.status_code, reply.json().get("code")


def test_without_a_name_there_is_401_with_both_ways_to_say_one(web: Web) -> None:
    nobody = web.remote()

    ours, ganetis = nobody.get("/3/jobs"), nobody.get("/2/jobs")

    assert status(ours) == (401, "unauthenticated")
    assert ours.headers["www-authenticate"] == 'Basic realm="Ganeti Remote API", Bearer realm="gantry"'
    assert (ganetis.status_code, ganetis.headers["www-authenticate"]) == (401, 'Basic realm="Ganeti Remote API"')
    assert nobody.get("/version").json() == 2


def test_wrong_credentials_are_401_also_where_nobody_needs_any(web: Web) -> None:
    assert status(web.remote(auth=("jack", "wrong")).get("/3/jobs")) == (401, "wrong_password")
    assert web.remote(auth=("nobody", "abc123")).get("/version").status_code == 401
    reply = web.remote().get("/2/jobs", headers={"Authorization": "Basic"})
    assert (reply.status_code, reply.json()["code"]) == (400, 400)


def test_an_unknown_path_is_told_before_wrong_credentials(web: Web) -> None:
    assert web.remote(auth=("jack", "wrong")).get("/2/nothing").status_code == 404
    assert web.remote().request("PATCH", "/2/jobs").status_code == 501


def test_a_missing_right_is_403_and_changes_nothing(web: Web) -> None:
    reply = web.remote(auth=("jack", "abc123")).post("/3/jobs", json={"jobs": [{"ops": [COMMAND]}]})

    assert status(reply) == (403, "denied")
    assert "'jobs.submit'" in reply.json()["detail"]
    assert status(web.remote(auth=("none", "xyz")).get("/3/jobs")) == (403, "denied")


def test_a_user_without_a_unix_user_can_run_no_command(web: Web) -> None:
    reply = web.remote(auth=("jim", "xyz")).post("/3/jobs", json={"jobs": [{"ops": [COMMAND]}]})

    assert status(reply) == (403, "denied")


def test_a_reader_sees_no_arguments_environment_and_output_of_others(web: Web) -> None:
    job_id = submitted(web.remote(auth=("jill", "xyz")))
    jack, jill = web.remote(auth=("jack", "abc123")), web.remote(auth=("jill", "xyz"))
    jill.get(f"/3/jobs/{job_id}/wait?until=final")

    assert "secret value" in jill.get(f"/3/jobs/{job_id}").text
    assert "secret argument" in jill.get(f"/3/jobs/{job_id}/output").text
    for path in (f"/3/jobs/{job_id}", f"/2/jobs/{job_id}", "/2/jobs?bulk=1"):
        seen = jack.get(path)
        assert seen.status_code == 200, seen.text
        assert "OP_RUN_COMMAND" in seen.text
        assert "secret" not in seen.text
    assert jack.get(f"/3/jobs/{job_id}/output").status_code == 403


def test_a_token_has_its_rights_and_no_others(web: Web) -> None:
    job_id = submitted(web.remote(auth=("jill", "xyz")))
    _, text = token(web, "canceller", "jobs.cancel")
    client = web.remote(token=text)

    assert client.delete(f"/2/jobs/{job_id}").status_code == 200
    assert status(client.get("/3/jobs")) == (403, "denied")
    assert status(client.post("/3/queue/drain")) == (403, "denied")


def test_an_expired_and_an_unknown_token_are_told(web: Web) -> None:
    _, text = token(web, "brief", "jobs.read", lasts_s=0.001)

    def refusal() -> tuple[int, Any]:
        return status(web.remote(token=text).get("/3/jobs"))

    wait_until(lambda: refusal() == (401, "token_expired"), what="the end of the token")
    reply = web.remote(token=text[:-1] + ("0" if text[-1] != "0" else "1")).get("/3/jobs")
    assert status(reply) == (401, "token_unknown")
    assert 'error="invalid_token"' in reply.headers["www-authenticate"]


def test_a_revoked_token_is_refused_on_an_open_connection(web: Web) -> None:
    token_id, text = token(web, "kept", "jobs.read")
    client = web.remote(token=text)
    assert client.get("/3/jobs").status_code == 200

    TokensFile(web.paths).revoke(token_id, time.time())

    assert status(client.get("/3/jobs")) == (401, "token_revoked")


async def _while_waiting(web: Web, text: str, path: str, change: Callable[[], None]) -> httpx2.Response:
    """The reply to a request that waits, when something changes after it was begun."""
    got: list[httpx2.Response] = []

    async def ask() -> None:
        async with _client(web, text) as client:
            got.append(await client.get(path, timeout=PATIENCE_S))

    # of an earlier test a stream may be ending yet
    await trio.to_thread.run_sync(lambda: wait_until(lambda: not _waiting(web), what="the end of other waits"))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await trio.to_thread.run_sync(lambda: wait_until(lambda: _waiting(web), what="the request to wait"))
        change()
    return got[0]


def _client(web: Web, text: str) -> httpx2.AsyncClient:
    headers = {"Authorization": f"Bearer {text}"}
    return httpx2.AsyncClient(base_url=web.url, headers=headers, verify=web.tls(), timeout=PATIENCE_S)


def _waiting(web: Web) -> int:
    count: int = web.local.get("/3/health").json()["waiting"]
    return count


def test_a_long_poll_ends_when_its_token_is_revoked(web: Web) -> None:
    token_id, text = token(web, "poller", "jobs.read")
    job_id = held_job(web)

    reply = trio.run(
        _while_waiting,
        web,
        text,
        f"/3/jobs/{job_id}/wait?until=final&timeout=600",
        lambda: TokensFile(web.paths).revoke(token_id, time.time()),
    )

    assert status(reply) == (401, "token_revoked")


def test_a_stream_ends_when_its_token_is_revoked(web: Web) -> None:
    token_id, text = token(web, "follower", "operate")
    job_id = held_job(web)

    async def follow() -> None:
        async with _client(web, text) as client, client.stream("GET", f"/3/jobs/{job_id}/output?follow=1") as reply:
            # before its head is sent the reply would be a 401
            TokensFile(web.paths).revoke(token_id, time.time())
            with pytest.raises(httpx2.RemoteProtocolError):
                await reply.aread()

    trio.run(follow)

    wait_until(lambda: not _waiting(web), what="the end of the stream")


def held_job(web: Web) -> int:
    """A job that runs until it is cancelled."""
    op = {"OP_ID": "OP_RUN_COMMAND", "argv": ["sleep", "600"]}
    job_id: int = web.local.post("/3/jobs", json={"jobs": [{"ops": [op]}]}).json()["jobs"][0]["id"]
    return job_id


def test_users_change_while_rapid_runs(web: Web) -> None:
    client = web.remote(auth=("new", "xyz"))
    assert client.get("/3/jobs").status_code == 401

    write_users(web, f"{USERS}new xyz read\n")
    assert client.get("/3/jobs").status_code == 200

    # in one step, too: for a moment the file would be empty, and nobody in it
    write_users(web, b"\xff\xff\n")
    assert client.get("/3/jobs").status_code == 200

    write_users(web, USERS)
    assert status(client.get("/3/jobs")) == (401, "wrong_password")
    assert "access.file_not_read" in web.log()


def test_a_hashed_password_is_as_good_as_clear_text(web: Web) -> None:
    UsersFile(web.paths).set_password("jack", str(hashed("other")))

    assert web.remote(auth=("jack", "other")).get("/3/jobs").status_code == 200
    assert web.remote(auth=("jack", "abc123")).get("/3/jobs").status_code == 401
    write_users(web, USERS)


def test_logs_name_who_changed_what_and_no_secret(web: Web) -> None:
    _, text = token(web, "drainer", "queue.write")

    assert web.remote(token=text).post("/3/queue/drain").status_code < 300
    assert web.remote(token=text).post("/3/queue/undrain").status_code < 300

    lines = [line for line in web.log().splitlines() if "call.changed" in line and "caller=drainer" in line]
    assert len(lines) == 2
    assert "path=/3/queue/drain" in lines[0]
    assert f"token={text.split('_')[1]}" in lines[0]
    assert text.split("_")[2] not in web.log()


@pytest.mark.parametrize(
    "headers", [{"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}, {"Origin": "https://evil.example"}]
)
def test_another_site_cannot_change_anything_by_a_password_that_a_browser_knows(
    web: Web, headers: dict[str, str]
) -> None:
    client = web.remote(auth=("joan", "xyz"))
    form = {**headers, "Content-Type": "application/x-www-form-urlencoded"}

    assert status(client.post("/3/queue/drain", headers=form)) == (403, "denied")
    assert client.post("/2/nodes/node1/powercycle", headers=form).status_code == 403
    assert client.get("/3/queue").json()["drained"] is False
    for own in ({"Origin": web.url}, {"Sec-Fetch-Site": "same-origin", "Origin": web.url}, {"Sec-Fetch-Site": "none"}):
        assert client.post("/3/queue/undrain", headers=own).status_code == 200, own


def test_another_site_cannot_read_by_a_password_that_a_browser_knows(web: Web) -> None:
    jobs = web.local.get("/2/jobs").json()
    client, foreign = web.remote(auth=("joan", "xyz")), {"Sec-Fetch-Site": "cross-site"}
    _, text = token(web, "reader", "jobs.read")

    # the first one would submit a job
    for path in ("/2/os", "/3/jobs", "/2/jobs?bulk=1"):
        assert client.get(path, headers=foreign).status_code == 403
    assert web.local.get("/2/jobs").json() == jobs
    assert client.get("/3/jobs", headers={"Sec-Fetch-Site": "none"}).status_code == 200
    # a browser knows no tokens, so a script of that site was given it
    assert web.remote(token=text).get("/3/jobs", headers=foreign).status_code == 200


def test_a_page_of_the_same_host_without_encryption_is_another_site(web: Web) -> None:
    client = web.remote(auth=("joan", "xyz"))

    refused = client.post("/3/queue/drain", headers={"Origin": web.url.replace("https:", "http:")})

    assert status(refused) == (403, "denied")
    assert client.get("/3/queue").json()["drained"] is False


# attempts at passwords


def statuses_at_once(client: httpx2.Client, passwords: list[str], headers: dict[str, str]) -> list[int]:
    def ask(password: str) -> int:
        return client.get("/3/jobs", auth=("jack", password), headers=headers).status_code

    with ThreadPoolExecutor(len(passwords)) as pool:
        return list(pool.map(ask, passwords))


def test_of_sixty_wrong_passwords_at_once_few_are_checked_and_others_behind_the_proxy_are_served(web: Web) -> None:
    with restarted(web, 'trusted_proxies = ["127.0.0.0/8"]\n'):
        client = web.remote()
        client.get("/version")
        guesser, other = {"X-Forwarded-For": "8.8.8.8, 203.0.113.5"}, {"X-Forwarded-For": "203.0.113.6"}

        found = statuses_at_once(client, [f"wrong{number}" for number in range(60)], guesser)

        assert set(found) == {401, 429}
        # those that cost nothing, and those that get a turn in the time that all of it takes
        assert found.count(401) <= FREE + 8
        assert client.get("/3/jobs", auth=("jack", "wrong"), headers=other).status_code == 401
        assert client.get("/3/jobs", auth=("jill", "xyz"), headers=guesser).status_code == 200
    assert "address=203.0.113.5" in web.log()
    assert "8.8.8.8" not in web.log()


def test_nobody_but_a_trusted_proxy_may_name_another_address(web: Web) -> None:
    with restarted(web, 'trusted_proxies = ["192.0.2.1"]\n'):
        client = web.remote()
        client.get("/version")

        named = client.get("/3/jobs", auth=("jack", "wrong"), headers={"X-Forwarded-For": "198.51.100.7"})

    assert named.status_code == 401
    assert "198.51.100.7" not in web.log()


# other rules: rapid is started again, and once more for the tests after it, whichever they are


@contextmanager
def restarted(web: Web, settings: str) -> Iterator[None]:
    web.configure(settings)
    web.cluster.restart("rapid")
    try:
        yield
    finally:
        web.configure("")
        web.cluster.restart("rapid")


@pytest.fixture
def for_strangers(web: Web) -> Iterator[None]:
    with restarted(web, "anonymous_read = true\n"):
        yield


@pytest.fixture
def as_ganeti(web: Web) -> Iterator[None]:
    with restarted(web, "ganeti_rights = true\n"):
        yield


@pytest.fixture
def for_the_named(web: Web) -> Iterator[None]:
    with restarted(web, "ganeti_rights = true\nrequire_authentication = true\n"):
        yield


@pytest.mark.usefixtures("for_strangers")
def test_strangers_may_read_if_the_settings_say_so_and_see_no_secrets(web: Web) -> None:
    job_id = submitted(web.remote(auth=("jill", "xyz")))
    nobody = web.remote()

    for path in (f"/3/jobs/{job_id}", f"/2/jobs/{job_id}", "/2/jobs?bulk=1"):
        seen = nobody.get(path)
        assert seen.status_code == 200, seen.text
        assert "OP_RUN_COMMAND" in seen.text
        assert "secret" not in seen.text
    assert nobody.get(f"/3/jobs/{job_id}/output").status_code == 403
    assert nobody.delete(f"/2/jobs/{job_id}").status_code == 401
    assert web.remote(auth=("none", "xyz")).get("/3/jobs").status_code == 200


@pytest.mark.usefixtures("for_strangers")
def test_strangers_who_may_read_may_follow_what_they_read(web: Web) -> None:
    for client in (web.remote(), web.remote(auth=("none", "xyz"))):
        for query in ("", "?topics=filters,locks,queue"):
            with client.stream("GET", f"/3/events{query}") as reply:
                assert reply.status_code == 200, reply.read()
                lines = reply.iter_lines()
                names = [next(line for line in lines if line.startswith("event: ")) for _ in range(4)]
            assert names == ["event: begin", "event: filters", "event: locks", "event: queue"]


@pytest.mark.usefixtures("as_ganeti")
def test_with_ganetis_rule_everybody_reads_ganetis_resources_and_only_writers_change(web: Web) -> None:
    job_id = submitted(web.remote(auth=("jill", "xyz")))

    assert web.remote().get(f"/2/jobs/{job_id}").status_code == 200
    assert web.remote(auth=("none", "xyz")).get("/2/jobs").status_code == 200
    assert web.remote().get("/3/jobs").status_code == 401
    assert web.remote().get("/2/query/job?fields=id").status_code == 401
    assert web.remote(auth=("none", "xyz")).get("/2/query/job?fields=id").status_code == 403
    assert web.remote(auth=("jack", "abc123")).get("/2/query/job?fields=id").status_code == 200
    assert web.remote(auth=("jack", "abc123")).delete(f"/2/jobs/{job_id}").status_code == 403
    assert web.remote(auth=("joan", "xyz")).delete(f"/2/jobs/{job_id}").status_code == 200


@pytest.mark.usefixtures("for_the_named")
def test_where_names_are_required_nothing_is_told_without_one(web: Web) -> None:
    for path in ("/version", "/2/jobs", "/2/nothing", "/3/jobs", "/3/nothing", "/nothing"):
        assert web.remote().get(path).status_code == 401, path
    assert web.remote(auth=("jack", "wrong")).get("/2/nothing").status_code == 404
    assert web.remote(auth=("jack", "wrong")).get("/version").status_code == 401
    assert web.remote(auth=("none", "xyz")).get("/version").json() == 2
    assert web.remote().get("/ui/login").status_code == 200
