"""The web page: what it shows is escaped, who may see it, and what protects its forms."""

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from protocol.luxi.daemon import ReadMetrics
from protocol.luxi.queries import QueryConfigValues
from protocol.luxi.queue import DeleteFilter, ReplaceFilter
from tests.support.wait import wait_until
from tests.support.web.rapid import Web
from tests.support.web.visitor import Visitor

USERS = "op op-secret operate\nreader reader-secret read\ncanceler canceler-secret jobs.read,jobs.cancel\n"
PATHS = (
    "/ui",
    "/ui/jobs",
    "/ui/jobs/1",
    "/ui/locks",
    "/ui/filters",
    "/ui/rates",
    "/ui/history",
    "/ui/schedules",
    "/ui/resources",
    "/ui/keys",
)
HOSTILE = "</title><script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{ 7*7 }}\u202egnp"


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    with Web(tmp_path_factory.mktemp("web")) as web:
        web.put_users(USERS)
        web.start()
        command = ["sh", "-c", "printf '%s' \"$0\"; exit 3", HOSTILE]
        reason = [["gnt:user", HOSTILE, 1]]
        job = web.cluster.submit({"OP_ID": "OP_RUN_COMMAND", "argv": command, "comment": HOSTILE, "reason": reason})
        assert (job, web.cluster.wait(job)) == (1, ["error"])
        yield web


@pytest.fixture
def visitor(web: Web) -> Visitor:
    return Visitor(web)


@pytest.fixture
def operator(visitor: Visitor) -> Visitor:
    assert visitor.log_in("op", "op-secret").status_code == 303
    return visitor


@pytest.mark.parametrize("path", PATHS)
def test_hostile_names_stay_text(web: Web, path: str) -> None:
    reply = web.local.get(path)

    assert reply.status_code == 200, reply.text
    assert "<script>alert" not in reply.text
    assert "<img" not in reply.text
    assert "\u202e" not in reply.text
    if path == "/ui/jobs/1":
        # the comment, the argument, the reason and the output
        assert reply.text.count("&lt;script&gt;alert(1)&lt;/script&gt;") >= 4
        assert "{{ 7*7 }}" in reply.text


@pytest.mark.parametrize("path", [*PATHS, "/ui/login", "/ui/nothing", "/ui/static/page.css", "/ui/jobs/77"])
def test_every_reply_says_what_a_browser_must_not_do(web: Web, path: str) -> None:
    reply = web.local.get(path)

    policy = reply.headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert reply.headers["referrer-policy"] == "same-origin"


@pytest.mark.parametrize("path", PATHS[:-1])
def test_a_stranger_is_sent_to_the_login(visitor: Visitor, path: str) -> None:
    reply = visitor.get(path)

    assert (reply.status_code, reply.headers["location"].partition("?")[0]) == (303, "/ui/login")


def test_the_stream_of_a_page_refuses_a_stranger_without_a_redirect(visitor: Visitor) -> None:
    assert visitor.get("/ui/live/dashboard").status_code == 401


@pytest.mark.parametrize(
    "path",
    [
        f"/ui/jobs/{10**30}",
        "/ui/jobs/-1",
        "/ui/jobs/0",
        f"/ui/jobs?after={10**30}",
        "/ui/jobs?after=x&where=%00",
        "/ui/jobs?where=" + "(" * 3000,
        "/ui/jobs?where=user%3D~%28%28a%2B%29%2B%29%2B%24",
        "/ui/jobs?where=" + "%E2%80%AE" * 300,
        "/ui/jobs/1?line=99999999999999999999",
        "/ui/jobs/1?line=-3",
        f"/ui/jobs/1?line={2**62}",
        "/ui/jobs/1?find=" + "%E2%80%AE" * 300,
        "/ui/jobs/1?find=%28%3Cscript%3E%28&line=1",
        "/ui/jobs/77/output",
        "/ui/jobs/1/output?try=7",
        "/ui?by=nothing",
        "/ui/locks?lock=%3Cscript%3E&awaited",
        "/ui/static/../templates.py",
        "/ui/static/%2e%2e/templates.py",
        "/ui/static/vendor/",
        "/ui/login?back=//evil.example",
    ],
)
def test_odd_addresses_are_shown_or_refused_as_pages(web: Web, path: str) -> None:
    reply = web.local.get(path)

    assert reply.status_code in (200, 400, 404), reply.text
    assert reply.headers["content-type"] == "text/html; charset=utf-8"
    assert "internal error" not in reply.text
    assert 'value="//evil' not in reply.text


def test_a_slash_more_leads_to_the_dashboard(visitor: Visitor) -> None:
    assert visitor.get("/ui/").headers["location"] == "/ui"


def test_a_session_is_a_cookie_that_scripts_and_other_sites_do_not_get(visitor: Visitor) -> None:
    before = visitor.client.cookies.get("gantry-visit")
    visitor.token()
    first = visitor.client.cookies.get("gantry-visit")

    reply = visitor.log_in("op", "op-secret")

    cookie = reply.headers["set-cookie"].lower()
    for word in ("gantry-visit=", "httponly", "secure", "samesite=strict", "path=/ui"):
        assert word in cookie
    assert before is None
    # whoever knew the cookie from before the login has no session
    assert visitor.client.cookies.get("gantry-visit") != first
    assert visitor.get("/ui").status_code == 200


def test_the_cookie_counts_for_pages_only(operator: Visitor) -> None:
    assert operator.get("/3/jobs").status_code == 401
    cookie = operator.client.cookies.get("gantry-visit")
    assert operator.client.get("/3/jobs", headers={"Cookie": f"gantry-visit={cookie}"}).status_code == 401


def test_a_wrong_password_begins_no_session(visitor: Visitor) -> None:
    reply = visitor.log_in("op", "guess")

    assert reply.status_code == 401
    assert "The name or the password is wrong" in reply.text
    assert visitor.get("/ui").status_code == 303


def test_the_login_leads_to_pages_of_ours_only(visitor: Visitor) -> None:
    for back in ("https://evil.example/", "//evil.example/ui", "/ui\\..\\x", "javascript:alert(1)", "/uix"):
        reply = visitor.post("/ui/login", visitor.token(), name="op", password="op-secret", back=back)

        assert reply.headers["location"] == "/ui"


def test_whoever_logs_out_has_no_session(operator: Visitor) -> None:
    cookie = operator.client.cookies.get("gantry-visit")

    assert operator.post("/ui/logout").headers["location"] == "/ui/login"

    assert operator.client.get("/ui", headers={"Cookie": f"gantry-visit={cookie}"}).status_code == 303


def test_a_user_who_is_removed_has_no_session(web: Web, operator: Visitor) -> None:
    try:
        web.paths.rapi_users.write_text(USERS.replace("op op-secret", "other op-secret"))

        assert operator.get("/ui").status_code == 303
    finally:
        web.paths.rapi_users.write_text(USERS)


@pytest.mark.parametrize(
    ("token", "origin"),
    [
        ("", None),
        ("0" * 64, None),
        (None, "https://evil.example"),
        (None, "null"),
        (None, "https://127.0.0.1:1"),
        (None, "https://["),
    ],
)
def test_a_forged_form_changes_nothing(operator: Visitor, token: str | None, origin: str | None) -> None:
    if origin is not None:
        operator.client.headers["Origin"] = origin
    for path in ("/ui/queue", "/ui/filters/pause", "/ui/jobs/cancel", "/ui/seen", "/ui/logout"):
        reply = operator.post(path, token, drain="yes", sure="yes", job="1")

        assert reply.status_code == 403, path
    assert operator.web.cluster.luxi(QueryConfigValues(("drain_flag",))) == (False,)
    assert operator.get("/ui").status_code == 200


def test_a_page_takes_forms_only(operator: Visitor) -> None:
    for body in ({"token": 5}, {"token": [7]}, {"token": None}, ["token"]):
        reply = operator.client.post("/ui/theme", json=body)

        assert reply.status_code == 415, body


def test_a_head_of_a_stream_of_a_page_leaves_its_connection_usable(operator: Visitor) -> None:
    assert operator.client.head("/ui/live/jobs").status_code == 200
    assert operator.get("/ui/jobs").status_code == 200


def test_a_form_without_origin_and_a_token_of_another_visitor_are_refused(operator: Visitor) -> None:
    other = Visitor(operator.web)
    other.log_in("op", "op-secret")
    assert operator.post("/ui/queue", other.token("/ui/keys"), drain="yes", sure="yes").status_code == 403
    token = operator.token("/ui/keys")

    del operator.client.headers["Origin"]

    assert operator.post("/ui/queue", token, drain="yes", sure="yes").status_code == 403


def test_whoever_lacks_the_right_is_refused(visitor: Visitor) -> None:
    visitor.log_in("reader", "reader-secret")
    for path in ("/ui/queue", "/ui/filters/pause", "/ui/jobs/cancel", "/ui/jobs/priority"):
        assert visitor.post(path, drain="yes", sure="yes", job="1").status_code == 403, path


def test_a_single_right_gives_one_change_only(web: Web) -> None:
    visitor = Visitor(web)
    visitor.log_in("canceler", "canceler-secret")

    assert visitor.post("/ui/jobs/cancel", job="1").status_code == 200
    page = visitor.get("/ui/jobs").text
    assert "/ui/jobs/cancel" in page
    for path in ("/ui/jobs/priority", "/ui/jobs/rerun", "/ui/jobs/archive"):
        assert visitor.post(path, job="1").status_code == 403
        assert path not in page
    assert "/ui/jobs/" not in "".join(re.findall(r"formaction=\S+", visitor.get("/ui/jobs/1").text))


def test_a_change_is_listed_first_and_done_by_the_second_form(operator: Visitor) -> None:
    first = operator.post("/ui/filters/pause", where="op=OP_TEST_DELAY", reason=HOSTILE)
    assert first.status_code == 200
    assert "<script>alert" not in first.text
    assert "rule-" not in operator.get("/ui/filters").text

    done = operator.post("/ui/filters/pause", where="op=OP_TEST_DELAY", reason=HOSTILE, sure="yes")

    assert done.status_code == 200
    found = re.search(r'id="rule-([-0-9a-f]{36})"', operator.get("/ui/filters").text)
    assert found
    assert operator.post("/ui/filters/delete", uuid=found[1], sure="yes").status_code == 200
    assert "rule-" not in operator.get("/ui/filters").text


def test_a_page_asks_luxid_as_often_with_many_jobs_as_with_few(web: Web) -> None:
    def asked() -> float:
        before = calls()
        for path in ("/ui", "/ui/jobs", "/ui/history"):
            assert web.local.get(path).status_code == 200
        return calls() - before

    def calls() -> float:
        # of luxid itself: the numbers of rapid may be a second old
        return web.cluster.luxi(ReadMetrics()).number("calls")

    few = min(asked() for _ in range(3))
    web.cluster.wait(*web.cluster.submit_many(*[({"OP_ID": "OP_TEST_DUMMY", "result": ""},)] * 120))

    # the recorder asks, too, from time to time; and failed jobs are explained
    assert min(asked() for _ in range(3)) <= few + 3


def test_the_stream_of_a_page_sends_what_changes(web: Web) -> None:
    with tempfile.TemporaryDirectory() as folder:
        gate = Path(folder) / "gate"
        command = ["sh", "-c", f"echo one; until [ -e {gate} ]; do sleep 0.05; done; echo '<two>'"]
        job = web.cluster.submit({"OP_ID": "OP_RUN_COMMAND", "argv": command})
        wait_until(lambda: web.cluster.status(job) == "running", what="the job to run")
        text = ""
        with web.local.stream("GET", f"/ui/live/jobs/{job}?output=4.2..") as stream:
            assert stream.headers["content-type"].startswith("text/event-stream")
            for piece in stream.iter_text():
                text += piece
                if 'id="jobhead"' in text:
                    gate.touch()
                if "&lt;two&gt;" in text and "st-success" in text:
                    break

    assert "data: one" not in text
    assert text.count('hx-target="#relations"') >= 1


def test_an_output_is_downloaded_as_it_was_printed(web: Web, visitor: Visitor) -> None:
    printed = "\x1b[31m<b>\x1b[0m 50%\r100%\né".encode() + bytes(range(256))
    escaped = "".join(f"\\0{byte:03o}" for byte in printed)
    job = web.cluster.submit({"OP_ID": "OP_RUN_COMMAND", "argv": ["printf", "%b", escaped]})
    assert web.cluster.wait(job) == ["success"]

    reply = web.local.get(f"/ui/jobs/{job}/output")

    assert reply.content == printed
    assert reply.headers["content-disposition"] == f'attachment; filename="job-{job}.log"'
    assert reply.headers["content-type"] == "application/octet-stream"
    assert "default-src 'self'" in reply.headers["content-security-policy"]
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert f'href="/ui/jobs/{job}/output"' in web.local.get(f"/ui/jobs/{job}").text
    assert visitor.get(f"/ui/jobs/{job}/output").status_code == 303


def test_streams_end_with_the_session(operator: Visitor) -> None:
    token = operator.token("/ui/keys")
    with operator.client.stream("GET", "/ui/live/dashboard") as stream:
        is_out = False
        # returns when the server ends the stream
        for _ in stream.iter_text():
            if not is_out:
                is_out = operator.post("/ui/logout", token).status_code == 303
    assert is_out


def test_rules_are_shown_with_all_jobs_that_they_hold_back_or_rejected(web: Web) -> None:
    def replace(action: object, uuid: str | None = None) -> str:
        return web.cluster.luxi(ReplaceFilter(uuid, 0, (["opcode", ["==", "comment", "ruled"]],), action, ()))

    def figures(path: str) -> list[str]:
        _, _, shown = re.split(r'id="(rules|heldback)"', web.local.get(path).text)
        (row,) = re.findall(rf"<tr(?:(?!<tr).)*rule-{uuid}.*?</tr>", shown, re.DOTALL)
        return re.findall(r'<td class="n"[^>]*>([^<]*)</td>', row)

    ruled = {"OP_ID": "OP_TEST_DUMMY", "comment": "ruled"}
    uuid = replace("PAUSE")
    # more than any list of jobs on a page
    jobs = web.cluster.submit_many(*[(ruled,)] * 210)

    assert figures("/ui/filters")[1:3] == ["210", "0"]
    assert figures("/ui") == ["210", "-"]

    replace("REJECT", uuid)
    web.cluster.wait(*jobs)

    assert figures("/ui/filters")[1:3] == ["-", "210"]
    assert figures("/ui") == ["-", "210"]
    web.cluster.luxi(DeleteFilter(uuid))
