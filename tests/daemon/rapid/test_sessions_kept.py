"""Who has logged in stays so: when rapid is restarted or killed, when wconfd was away, and on the next master."""

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from common.webaccess.sessions import KeptSession
from protocol.blocking import BlockingClient
from protocol.wconfd.config import ChangeSessions, FollowSessions
from tests.support.machines.fleet import Fleet
from tests.support.wait import wait_until
from tests.support.web.rapid import Web
from tests.support.web.visitor import Visitor

USERS = "op op-secret operate\nreader reader-secret read\n"
KEPT = KeptSession("k" * 64, "op", "p" * 64, 1e9, 1e9 + 60)


@pytest.fixture
def web(tmp_path: Path) -> Iterator[Web]:
    with Web(tmp_path) as web:
        web.put_users(USERS)
        web.start()
        yield web


def log_in(web: Web, name: str = "op") -> Visitor:
    visitor = Visitor(web)
    assert visitor.log_in(name, f"{name}-secret").status_code == 303
    return visitor


def is_known(visitor: Visitor) -> bool:
    return visitor.get("/ui/jobs").status_code == 200


def kept(web: Web) -> int:
    return len(web.cluster.wconf(FollowSessions("")).sessions)


def until_kept(web: Web, count: int) -> None:
    wait_until(lambda: kept(web) == count, what=f"wconfd has {count} sessions", state=lambda: kept(web))


def test_a_session_and_an_open_form_outlive_rapid_and_wconfd(web: Web) -> None:
    visitor = log_in(web)
    token = visitor.token("/ui/jobs")
    until_kept(web, 1)
    web.cluster.kill("wconfd")
    web.cluster.kill("rapid")

    web.cluster.start("wconfd", "rapid")

    assert is_known(visitor)
    assert visitor.post("/ui/theme", token, theme="dark").status_code == 303


def test_the_file_has_no_id(web: Web) -> None:
    visitor = log_in(web)
    until_kept(web, 1)

    content = web.cluster.paths.sessions_data.read_text()

    assert '"user":"op"' in content
    assert visitor.client.cookies["gantry-visit"] not in content


def test_who_has_logged_out_stays_so_when_rapid_is_killed_at_once(web: Web) -> None:
    visitor = log_in(web)
    cookies = dict(visitor.client.cookies)
    until_kept(web, 1)

    visitor.post("/ui/logout")
    web.cluster.restart("rapid")

    thief = Visitor(web)
    thief.client.cookies.update(cookies)
    assert not is_known(thief)
    assert kept(web) == 0


def test_another_password_ends_the_sessions_of_earlier_runs(web: Web) -> None:
    visitor, other = log_in(web), log_in(web, "reader")
    until_kept(web, 2)
    web.cluster.kill("rapid")
    web.put_users(USERS.replace("op-secret", "another"))

    web.cluster.start("rapid")

    assert not is_known(visitor)
    assert is_known(other)
    until_kept(web, 1)


def test_people_come_and_go_while_wconfd_is_away_and_it_is_told_later(web: Web) -> None:
    first = log_in(web)
    until_kept(web, 1)
    web.cluster.kill("wconfd")

    first.post("/ui/logout")
    second = log_in(web, "reader")

    assert not is_known(first)
    assert is_known(second)
    wait_until(lambda: "sessions.not_kept" in web.log(), what="the log tells it")
    web.cluster.start("wconfd")
    wait_until(
        lambda: [each.user for each in web.cluster.wconf(FollowSessions("")).sessions] == ["reader"],
        what="wconfd has the second session alone",
    )
    web.cluster.restart("rapid")
    assert is_known(second)


@pytest.mark.parametrize("state", ["away", "hung"])
def test_before_wconfd_has_replied_nobody_is_taken_for_a_stranger(web: Web, state: str) -> None:
    visitor = log_in(web)
    until_kept(web, 1)
    web.cluster.kill("rapid")
    if state == "hung":
        pid = web.cluster.daemons["wconfd"].pid
        os.kill(pid, signal.SIGSTOP)
    else:
        web.cluster.kill("wconfd")

    web.cluster.start("rapid")
    try:
        reply = visitor.get("/ui/jobs")
        assert reply.status_code == 503
        assert "wconfd has not replied" in reply.text
        assert visitor.get("/ui/static/page.css").status_code == 200
        assert Visitor(web).get("/ui/jobs").headers["location"].startswith("/ui/login")
    finally:
        if state == "hung":
            os.kill(pid, signal.SIGCONT)
        else:
            web.cluster.start("wconfd")

    wait_until(lambda: is_known(visitor), what="the session is known again")


def test_a_session_that_the_file_has_no_more_is_over(web: Web) -> None:
    """Another rapid has ended it."""
    visitor = log_in(web)
    until_kept(web, 1)
    (row,) = web.cluster.wconf(FollowSessions("")).sessions

    web.cluster.wconf(ChangeSessions((), (row.key,)))

    wait_until(lambda: not is_known(visitor), what="the session is over")


def test_changes_are_durable_and_told_and_one_that_is_said_twice_is_none(web: Web) -> None:
    # which would end one that is so old
    web.cluster.kill("rapid")
    begun = web.cluster.wconf(FollowSessions(""))
    for _ in range(2):
        web.cluster.wconf(ChangeSessions((KEPT,), ("unknown",)))

    now = web.cluster.wconf(FollowSessions(begun.stamp))

    assert now.sessions == (KEPT,)
    web.cluster.restart("wconfd")
    again = web.cluster.wconf(FollowSessions(now.stamp))
    assert again.sessions == (KEPT,)
    assert again.stamp != now.stamp


def test_candidates_have_copies_of_the_sessions(tmp_path: Path) -> None:
    with Fleet(tmp_path, 1) as fleet:
        fleet.start()
        with BlockingClient(fleet.master.paths.wconfd_socket) as client:
            client.call(ChangeSessions((KEPT,), ()))
        copy = fleet.nodes[0].paths.sessions_data
        wait_until(copy.exists, what="the candidate has the file")
        assert copy.read_bytes() == fleet.master.paths.sessions_data.read_bytes()


def test_the_next_master_knows_who_has_logged_in_by_its_copies(web: Web, tmp_path: Path) -> None:
    visitor = log_in(web)
    until_kept(web, 1)
    with Web(tmp_path / "next") as other:
        other.put_users(USERS)
        shutil.copy(web.paths.sessions_data, other.paths.sessions_data)
        other.start()
        moved = Visitor(other)
        moved.client.cookies.update(visitor.client.cookies)

        assert is_known(moved)
        assert moved.post("/ui/logout").status_code == 303

        assert other.cluster.wconf(FollowSessions("")).sessions == ()
