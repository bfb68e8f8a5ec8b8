"""LUXI over HTTPS: the rules under which a message is passed on to luxid (DESIGN section 15; `protocol.rapid.luxi`)."""

import getpass
import time
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

import httpx2
import pytest

from common.errors import RemoteError
from common.webaccess.tokens import NewToken, TokensFile
from daemons.rapid.page.visitors import COOKIE
from protocol.envelope import read_event, read_reply, result_of
from protocol.framing import Framer
from protocol.luxi.feed import CHANGES
from protocol.rapid.luxi import LOCAL, PASSED, STREAM_TYPE, path_of
from tests.support.wait import PATIENCE_S, wait_until
from tests.support.web.rapid import Web
from tests.support.web.visitor import Visitor

ME = getpass.getuser()
USERS = f"jill xyz operate,unix={ME}\n"
COMMAND = {"OP_ID": "OP_RUN_COMMAND", "argv": ["echo", "secret argument"]}
SLEEP = {"OP_ID": "OP_RUN_COMMAND", "argv": ["sleep", "600"]}


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    with Web(tmp_path_factory.mktemp("luxi")) as web:
        web.paths.rapi.mkdir(parents=True, exist_ok=True)
        web.paths.rapi_users.write_text(USERS)
        web.start()
        yield web


def bearer(web: Web, name: str, *rights: str, login: str | None = None) -> tuple[httpx2.Client, str]:
    """A client with a new token, and the id of the token."""
    made, text = TokensFile(web.paths).create(NewToken(name, rights, None, login), time.time())
    return web.remote(token=str(text)), made.id


@pytest.fixture(scope="module")
def ci(web: Web) -> httpx2.Client:
    return bearer(web, "ci", "operate", login=ME)[0]


def call(client: httpx2.Client, method: str, *args: object) -> Any:
    """luxid's result."""
    reply = client.post(f"/luxi/{method}", json=args)
    assert reply.status_code == HTTPStatus.OK, reply.text
    return result_of(reply.json())


def refusal(reply: httpx2.Response) -> tuple[int, str, str]:
    assert reply.headers["content-type"] == "application/problem+json"
    problem = reply.json()
    return reply.status_code, problem["code"], problem["detail"]


def test_only_a_token_counts_no_password_no_cookie_and_no_word_of_the_kernel(web: Web) -> None:
    nobody, jill = web.remote(), web.remote(auth=("jill", "xyz"))
    visitor = Visitor(web)
    assert visitor.log_in("jill", "xyz").status_code == 303
    page = visitor.client
    assert page.cookies.get(COOKIE)

    told = [refusal(each.post("/luxi/QueryJobs", json=[None, ["id"]])) for each in (nobody, page, jill, web.local)]

    assert [(status, code) for status, code, _ in told] == [
        (401, "unauthenticated"),
        (401, "unauthenticated"),
        (403, "denied"),
        (403, "denied"),
    ]
    assert told[0][2] == "this call needs a token; 'gantry token create' makes one"
    assert told[2][2] == "'jill' has shown no token, and only that counts here; 'gantry token create' makes one"
    # the same user may do the same under /3
    assert jill.get("/3/jobs").status_code == HTTPStatus.OK


def test_methods_that_stay_on_the_machine_are_refused_with_the_reason(web: Web) -> None:
    admin, _ = bearer(web, "admin", "admin")

    for kind, reason in LOCAL.items():
        told = refusal(admin.post(path_of(kind), json=[]))
        assert told == (403, "denied", f"{kind.METHOD} works only on a machine of the cluster: {reason}")
    assert refusal(admin.post("/luxi/Nothing", json=[]))[:2] == (404, "not_found")


def test_the_speaker_is_the_user_of_the_token_whatever_the_body_says(web: Web, ci: httpx2.Client) -> None:
    other, _ = bearer(web, "other", "submit")

    job_id = call(ci, "SubmitJob", [COMMAND])
    user, secret = call(ci, "QueryJobs", [job_id], ["user", "ops"])[0]
    assert (user, secret[0]["argv"]) == (ME, COMMAND["argv"])
    assert call(other, "QueryJobs", [job_id], ["ops"])[0][0][0]["argv"] == ["echo"]

    message = {"method": "QueryJobs", "args": [[job_id], ["ops"]], "speaker": {"name": "x", "role": "admin"}}
    assert refusal(other.post("/luxi/QueryJobs", json=message))[:2] == (400, "invalid")
    named = other.post("/luxi/SubmitJob", json=[[COMMAND], None, "root"]).json()
    assert (named["success"], named["error"]["code"]) == (False, "denied")
    by_job = other.post("/luxi/SubmitManyJobs", json=[[[COMMAND]], None, None, job_id]).json()
    assert (by_job["success"], by_job["error"]["code"]) == (False, "denied")


def test_the_rights_of_the_token_and_the_roles_of_luxid_hold(web: Web, ci: httpx2.Client) -> None:
    reader, _ = bearer(web, "reader", "jobs.read")
    submitter, _ = bearer(web, "submitter", "submit")
    job_id = call(ci, "SubmitJob", [SLEEP])

    denied = refusal(reader.post("/luxi/CancelJob", json=[job_id, True]))
    assert denied[:2] == (403, "denied")
    assert "'reader' lacks the right 'jobs.submit' or 'jobs.cancel'" in denied[2]
    others = submitter.post("/luxi/CancelJob", json=[job_id, True]).json()
    assert others["success"] is False
    assert others["error"]["code"] == "denied"
    assert "it belongs to" in others["result"][1][0]
    # it takes an administrator
    assert ci.post("/luxi/SetJobLimits", json=[5]).json()["error"]["code"] == "denied"
    assert call(ci, "CancelJob", job_id, True)[0] is True


def test_what_the_arguments_ask_for_needs_its_own_right(web: Web) -> None:
    reader, _ = bearer(web, "jobs-only", "jobs.read")

    assert call(reader, "Query", "job", ["id"], None)["fields"][0]["name"] == "id"
    for what, right in (("lock", "locks.read"), ("filter", "filters.read"), ("node", "cluster.read")):
        told = refusal(reader.post("/luxi/Query", json=[what, ["name"], None]))
        assert told == (403, "denied", f"'jobs-only' lacks the right '{right}', which this Query needs")
    told = refusal(reader.post("/luxi/Subscribe", json=[["filters"], [1]]))
    assert told == (403, "denied", "'jobs-only' lacks the right 'filters.read', which this Subscribe needs")


def test_an_error_of_luxid_is_a_reply_as_on_the_socket(ci: httpx2.Client) -> None:
    reply = ci.post("/luxi/ReadJobOutput", json=[99999])

    assert (reply.status_code, reply.headers["content-type"]) == (200, "application/json")
    assert (reply.headers["cache-control"], reply.headers["x-content-type-options"]) == ("no-store", "nosniff")
    told = reply.json()
    assert (told["success"], told["result"][0], told["error"]["code"]) == (False, "JobLost", "not_found")


def test_bodies_have_the_bounds_of_all_calls(ci: httpx2.Client) -> None:
    deep: object = []
    for _ in range(600):
        deep = [deep]

    assert refusal(ci.post("/luxi/SubmitJob", content=b'["' + b"x" * (11 * 2**20) + b'"]'))[0] == 413
    for args in (deep, {}, [1, 2, 3], "text", [[], "k", None, "more"]):
        assert refusal(ci.post("/luxi/CancelJob", json=args))[:2] == (400, "invalid")
    typed = ci.post("/luxi/QueryJobs", content=b"[null, []]", headers={"Content-Type": "text/plain"})
    assert refusal(typed)[0] == 415
    assert refusal(ci.post("/luxi/QueryJobs?speaker=x", json=[None, ["id"]]))[0] == 400
    assert refusal(ci.get("/luxi/QueryJobs"))[0] == 405


def read_out(pieces: Iterator[bytes]) -> None:
    """Read to the end, which comes soon; a stream that goes on says now and then that it does."""
    until = time.monotonic() + PATIENCE_S
    for _ in pieces:
        assert time.monotonic() < until, "the stream goes on"


def test_a_stream_is_luxids_and_ends_when_the_token_is_revoked(web: Web, ci: httpx2.Client) -> None:
    follower, token_id = bearer(web, "follower", "operate")
    job_id = call(ci, "SubmitJob", [SLEEP])
    framer, messages = Framer(), list[bytes]()

    with follower.stream("POST", "/luxi/Subscribe", json=[["jobs"], [job_id], ["status"]]) as reply:
        assert (reply.status_code, reply.headers["content-type"]) == (200, STREAM_TYPE)
        pieces = reply.iter_bytes()
        messages += framer.feed(next(pieces))
        begun = read_reply(messages[0])
        assert isinstance(begun, dict)
        assert begun["jobs"][0][0] == job_id
        call(ci, "ChangeJobs", [job_id], {"name": "renamed"})
        call(ci, "CancelJob", job_id, True)
        while not any(message for message in messages[1:]):
            messages += framer.feed(next(pieces))
        name, params = read_event(messages[1])
        assert (name, len(params)) == (CHANGES, 2)

        TokensFile(web.paths).revoke(token_id, time.time())

        with pytest.raises(httpx2.RemoteProtocolError):
            read_out(pieces)
    wait_until(lambda: not web.local.get("/3/health").json()["waiting"], what="the end of the stream")
    assert refusal(follower.post("/luxi/Subscribe", json=[["jobs"], [job_id]]))[:2] == (401, "token_revoked")


def test_a_stream_names_its_jobs_and_an_error_is_all_of_it(ci: httpx2.Client) -> None:
    for ids in (None, [], list(range(1, 1002))):
        told = refusal(ci.post("/luxi/Subscribe", json=[["jobs"], ids]))
        assert told[:2] == (400, "invalid")
        assert told[2].startswith("name 1 to 1000 jobs to follow")

    refused = ci.post("/luxi/Subscribe", json=[["jobs"], [1], ["nosuch"]])

    assert (refused.status_code, refused.headers["content-type"]) == (200, STREAM_TYPE)
    (message,) = Framer().feed(refused.content)
    with pytest.raises(RemoteError, match="nosuch"):
        read_reply(message)


def test_each_change_is_logged_with_the_token_and_no_reading_is(web: Web, ci: httpx2.Client) -> None:
    call(ci, "QueryJobs", None, ["id"])
    call(ci, "SetDrainFlag", False)

    log = web.log()
    assert "path=/luxi/SetDrainFlag" in log
    assert "path=/luxi/QueryJobs" not in log
    assert {row.changes for row in PASSED.values()} == {True, False}
