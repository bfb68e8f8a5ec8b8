"""The page of every day: names, labels, holds, tries, schedules, resources, history."""

import os
import pwd
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx2
import pytest

from common.ids import JobId
from protocol.luxi.daemon import ReadMetrics
from tests.support.wait import wait_until
from tests.support.web.rapid import Web
from tests.support.web.visitor import Visitor

ME = pwd.getpwuid(os.getuid()).pw_name
USERS = f"""\
op op-secret operate,unix={ME}
bodiless bodiless-secret operate
reader reader-secret read
guest guest-secret submit
owner owner-secret submit,unix={ME}
"""
TRUE = {"OP_ID": "OP_RUN_COMMAND", "argv": ["true"]}
FALSE = {"OP_ID": "OP_RUN_COMMAND", "argv": ["false"]}
LATER = 4_000_000_000.0
FIRST_FAILS = "test -e {0} && echo second || { touch {0}; echo first; exit 75; }"


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    with Web(tmp_path_factory.mktemp("web")) as web:
        web.put_users(USERS)
        web.start()
        yield web


@pytest.fixture
def operator(web: Web) -> Visitor:
    visitor = Visitor(web)
    assert visitor.log_in("op", "op-secret").status_code == 303
    return visitor


def submit(web: Web, *, op: Any = TRUE, **terms: Any) -> int:
    reply = web.local.post("/3/jobs", json={"jobs": [{"ops": [op], **terms}]})
    assert reply.status_code == 201, reply.text
    job_id: int = reply.json()["jobs"][0]["id"]
    return job_id


def row_of(page: str, element: str) -> str:
    found = re.search(rf'<tr id="{element}">.*?</tr>', page, re.DOTALL)
    assert found, page
    return found[0]


def test_lists_and_jobs_show_name_and_labels_which_lead_to_their_jobs(web: Web) -> None:
    job_id = submit(web, name="backup-web1", labels={"team": 'a"b'})
    web.cluster.wait(job_id)

    for path, part in (("/ui/jobs", f"job-{job_id}"), (f"/ui/jobs/{job_id}", None)):
        page = web.local.get(path).text
        shown = page if part is None else row_of(page, part)
        assert "backup-web1" in shown
        assert "team=a&#34;b</a>" in shown
        (link,) = re.findall(r'href="(/ui/jobs\?where=label[^"]+)"', shown)
        found = web.local.get(link).text
        assert re.findall(r'<tr id="job-(\d+)"', found) == [str(job_id)]
        # what it runs is still told
        assert "RUN_COMMAND" in shown


def test_a_waiting_job_is_held_and_released_by_its_buttons(web: Web, operator: Visitor) -> None:
    job_id = submit(web, begin_at=LATER)
    page = f"/ui/jobs/{job_id}"
    assert ("/ui/jobs/hold" in operator.get(page).text, "/ui/jobs/release" in operator.get(page).text) == (True, False)

    asked = operator.post("/ui/jobs/hold", job=str(job_id))
    assert "Hold 1 job?" in asked.text
    assert 'name="why"' in asked.text
    done = operator.post("/ui/jobs/hold", job=str(job_id), why="the <mirror> is down", sure="yes")

    assert "Held: 1 of 1" in done.text
    held = operator.get(page).text
    assert ("/ui/jobs/hold" in held, "/ui/jobs/release" in held) == (False, True)
    assert "the &lt;mirror&gt; is down" in held
    assert "begins" in held
    assert "Released: 1 of 1" in operator.post("/ui/jobs/release", job=str(job_id), sure="yes").text
    assert "on hold" not in operator.get(page).text
    assert "Canceled: 1 of 1" in operator.post("/ui/jobs/cancel", job=str(job_id), sure="yes").text


def test_who_may_only_read_has_no_buttons_and_is_refused(web: Web) -> None:
    reader = Visitor(web)
    reader.log_in("reader", "reader-secret")
    jobs = ("/ui/jobs/hold", "/ui/jobs/release", "/ui/jobs/rerun", "/ui/jobs/archive")
    for path in (*jobs, "/ui/schedules/pause", "/ui/schedules/run"):
        assert reader.post(path, job="1", name="nightly", sure="yes").status_code == 403, path
        assert path not in reader.get("/ui/jobs").text + reader.get("/ui/schedules").text


def press(visitor: Visitor, path: str, **fields: str | list[str]) -> httpx2.Response:
    return visitor.client.post(path, data={"token": visitor.token("/ui/keys"), **fields})


def pressed_again(visitor: Visitor, asked: str, **more: str) -> httpx2.Response:
    """Send the form of a page that asks."""
    ((path, form_text),) = re.findall(
        r'<form class="row" method="post" action="(/ui/jobs/\w+)">(.*?)</form>', asked, re.DOTALL
    )
    hidden = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', form_text)
    names = dict.fromkeys(name for name, _ in hidden)
    form = {name: [value for each, value in hidden if each == name] for name in names}
    return visitor.client.post(path, data={**form, "sure": "yes", **more})


def reruns(done: str) -> dict[int, int]:
    """Old job -> new job, as the page tells, with links to both."""
    href = r'<a href="/ui/jobs/(\d+)">job \d+</a>'
    return {int(old): int(new) for old, new in re.findall(rf"{href} runs again as {href}", done)}


def test_a_failed_job_runs_again_from_its_page_once_by_a_form_sent_twice(
    web: Web, operator: Visitor, tmp_path: Path
) -> None:
    fails = {"OP_ID": "OP_RUN_COMMAND", "argv": ["sh", "-c", FIRST_FAILS.replace("{0}", str(tmp_path / "mark"))]}
    old = submit(web, op=fails, name="twice")
    assert web.cluster.wait(old) == ["error"]
    page = operator.get(f"/ui/jobs/{old}").text
    shown = [path in page for path in ("/ui/jobs/rerun", "/ui/jobs/archive", "/ui/jobs/cancel", "/ui/jobs/hold")]
    assert shown == [True, True, False, False]

    asked = press(operator, "/ui/jobs/rerun", job=str(old), back=f"/ui/jobs/{old}").text
    assert "Run 1 job again?" in asked
    assert f'id="job-{old}"' in asked
    assert 'name="which"' not in asked
    before = submit(web)
    first, second = (pressed_again(operator, asked).text for _ in range(2))

    new = reruns(first)[old]
    assert "Run again: 1 of 1" in first
    assert f'href="/ui/jobs/{old}">back' in first
    # nothing was submitted by the question, and one job by both forms
    assert (new, reruns(second), submit(web)) == (before + 1, {old: new}, before + 2)
    assert ("this form was sent before" in first, "this form was sent before" in second) == (False, True)
    assert web.cluster.wait(new) == ["success"]
    assert web.cluster.job(new, "name", "labels") == ("twice", {"rerun-of": str(old)})
    assert web.cluster.status(old) == "error"


def test_the_ended_jobs_of_a_filter_run_again_or_the_failed_ones_of_them(web: Web, operator: Visitor) -> None:
    labels = {"run": "nightly"}
    good, bad = submit(web, labels=labels), submit(web, op=FALSE, labels=labels)
    waits = submit(web, labels=labels, begin_at=LATER)
    web.cluster.wait(good, bad)

    asked = press(operator, "/ui/jobs/rerun", every="yes", where="label.run=nightly").text
    assert "Run 2 jobs again?" in asked
    assert f'id="job-{waits}"' not in asked
    assert re.findall(r'<option value="(\w+)">([^<]+)<', asked) == [
        ("all", "all 2"),
        ("failed", "the 1 that did not succeed"),
    ]
    assert 'name="sure" value="yes">run again<' in asked
    failed, every = (reruns(pressed_again(operator, asked, which=which).text) for which in ("failed", "all"))

    assert [list(failed), list(every)] == [[bad], [good, bad]]
    assert web.cluster.wait(*failed.values()) == ["error"]
    assert web.cluster.wait(*every.values()) == ["success", "error"]
    assert "Canceled: 1 of 1" in operator.post("/ui/jobs/cancel", job=str(waits), sure="yes").text


def test_each_act_tells_to_which_of_the_chosen_jobs_it_does_not_apply(web: Web, operator: Visitor) -> None:
    ended, waits = submit(web), submit(web, begin_at=LATER)
    web.cluster.wait(ended)
    shown = operator.get("/ui/jobs").text
    assert [f'id="choose-{job_id}"' in shown for job_id in (ended, waits)] == [True, True]
    both = [str(ended), str(waits), "987654"]

    for act, question, told in (
        ("rerun", "Run 1 job again?", f"1 of the chosen jobs has not ended: {waits}."),
        ("archive", "Archive 1 job?", f"1 of the chosen jobs has not ended: {waits}."),
        ("cancel", "Cancel 1 job?", f"1 of the chosen jobs has ended already: {ended}."),
        ("hold", "Hold 1 job?", f"1 of the chosen jobs has ended already: {ended}."),
    ):
        asked = press(operator, f"/ui/jobs/{act}", job=both).text
        assert (question in asked, told in asked) == (True, True), asked
        assert "1 of the chosen jobs does not exist: 987654." in asked
    nothing = press(operator, "/ui/jobs/rerun", job=str(waits)).text
    assert ("No job to run again" in nothing, "None of these jobs has ended." in nothing) == (True, True)
    assert 'name="sure"' not in nothing

    # what no page offers is refused all the same
    assert press(operator, "/ui/jobs/rerun", job=both[:2], sure="yes").status_code == 409
    assert press(operator, "/ui/jobs/rerun", job="987654", sure="yes").status_code == 404
    refused = press(operator, "/ui/jobs/archive", job=str(waits), sure="yes").text
    assert ("Archived: 0 of 1" in refused, f"{waits}</a> has not ended" in refused) == (True, True)
    assert press(operator, "/ui/jobs/rerun", job="7; 8", sure="yes").status_code == 400
    operator.post("/ui/jobs/cancel", job=str(waits), sure="yes")


def test_a_job_that_cannot_run_again_is_told_with_the_reason_and_without_a_button(web: Web, operator: Visitor) -> None:
    first = submit(web, op=FALSE)
    web.cluster.wait(first)
    never = submit(web, op={**TRUE, "depends": [[first, ["success"]]]})
    assert web.cluster.wait(never) == ["error"]

    asked = press(operator, "/ui/jobs/rerun", job=str(never)).text
    assert f"Job {never} depends on job {first}, which ended as error; run both again" in asked
    assert 'name="sure"' not in asked
    both = press(operator, "/ui/jobs/rerun", job=[str(first), str(never)]).text
    assert len(reruns(pressed_again(operator, both).text)) == 2


def test_ended_jobs_are_archived_and_no_more_in_the_list(web: Web, operator: Visitor) -> None:
    ids = [submit(web, labels={"old": "yes"}) for _ in range(3)]
    web.cluster.wait(*ids)

    asked = press(operator, "/ui/jobs/archive", every="yes", where="label.old=yes").text
    assert "Archive 3 jobs?" in asked
    assert web.cluster.job(ids[0], "archived") == (False,)
    done = pressed_again(operator, asked).text

    assert ("Archived: 3 of 3" in done, f"{ids[0]}</a> is archived" in done) == (True, True)
    assert "No job matches." in operator.get("/ui/jobs?where=label.old%3Dyes").text
    page = operator.get(f"/ui/jobs/{ids[0]}").text
    assert ("/ui/jobs/archive" in page, "/ui/jobs/rerun" in page) == (False, True)
    again = press(operator, "/ui/jobs/archive", job=[str(ids[0])]).text
    assert f"1 of the chosen jobs is archived already: {ids[0]}." in again
    # an archived job runs again, too
    rerun = reruns(press(operator, "/ui/jobs/rerun", job=str(ids[0]), sure="yes").text)
    assert web.cluster.wait(rerun[ids[0]]) == ["success"]


def test_a_job_whose_file_is_gone_is_told_so(web: Web, operator: Visitor) -> None:
    job_id = submit(web)
    web.cluster.wait(job_id)
    web.paths.job_file(JobId(job_id)).unlink()

    told = press(operator, "/ui/jobs/archive", job=str(job_id), sure="yes").text

    assert ("Archived: 0 of 1" in told, "somebody removed" in told) == (True, True)
    gone = press(operator, "/ui/jobs/rerun", job=str(job_id))
    assert f"1 of the chosen jobs does not exist: {job_id}." in gone.text


def test_another_users_job_is_neither_run_again_nor_archived_by_who_may_submit(web: Web) -> None:
    guest = Visitor(web)
    guest.log_in("guest", "guest-secret")
    job_id = submit(web)
    web.cluster.wait(job_id)
    before = submit(web)

    asked = press(guest, "/ui/jobs/rerun", job=str(job_id))
    assert (asked.status_code, 'name="sure"' in asked.text) == (200, False)
    assert "only they can let it run again" in asked.text
    assert press(guest, "/ui/jobs/rerun", job=str(job_id), sure="yes").status_code == 403
    refused = press(guest, "/ui/jobs/archive", job=str(job_id), sure="yes").text
    assert ("Archived: 0 of 1" in refused, f"{job_id}</a> cannot be archived" in refused) == (True, True)
    assert (submit(web), web.cluster.job(job_id, "archived")) == (before + 1, (False,))


def test_who_may_submit_lets_his_own_jobs_run_again_and_archives_them(web: Web) -> None:
    owner = Visitor(web)
    owner.log_in("owner", "owner-secret")
    job_id = submit(web)
    web.cluster.wait(job_id)

    asked = press(owner, "/ui/jobs/rerun", job=str(job_id)).text
    new = reruns(pressed_again(owner, asked).text)[job_id]
    assert web.cluster.wait(new) == ["success"]
    assert "Archived: 2 of 2" in press(owner, "/ui/jobs/archive", job=[str(job_id), str(new)], sure="yes").text


def test_a_job_that_luxid_does_not_take_again_is_told_by_its_id(web: Web) -> None:
    bodiless = Visitor(web)
    bodiless.log_in("bodiless", "bodiless-secret")
    submit(web)
    web.cluster.wait(1)

    done = press(bodiless, "/ui/jobs/rerun", job="1", sure="yes").text

    assert "Run again: 0 of 1" in done
    assert '<li class="bad"><a href="/ui/jobs/1">job 1</a>: opcode 1: HTTP user' in done


@pytest.mark.parametrize("act", ["rerun", "archive"])
def test_a_forged_form_runs_nothing_again_and_archives_nothing(web: Web, operator: Visitor, act: str) -> None:
    job_id = submit(web)
    web.cluster.wait(job_id)
    before = submit(web)

    assert operator.post(f"/ui/jobs/{act}", "0" * 64, job=str(job_id), sure="yes").status_code == 403
    operator.client.headers["Origin"] = "https://evil.example"
    assert operator.post(f"/ui/jobs/{act}", job=str(job_id), sure="yes").status_code == 403

    assert (submit(web), web.cluster.job(job_id, "archived")) == (before + 1, (False,))


def test_many_jobs_are_canceled_by_one_call(web: Web, operator: Visitor) -> None:
    ids = [submit(web, begin_at=LATER) for _ in range(30)]

    def calls() -> float:
        # of luxid itself: the numbers of rapid may be a second old
        return web.cluster.luxi(ReadMetrics()).number("calls")

    form = {"token": operator.token("/ui/keys"), "sure": "yes", "job": [str(job_id) for job_id in ids]}
    before = calls()
    done = operator.client.post("/ui/jobs/cancel", data=form)

    assert "Canceled: 30 of 30" in done.text
    # others ask, too: the page itself, and its recorder
    assert calls() - before < 15


def test_the_tries_of_a_job_are_shown_each_with_its_output(web: Web, tmp_path: Path) -> None:
    script = FIRST_FAILS.replace("{0}", str(tmp_path / "mark"))
    retried = {"OP_ID": "OP_RUN_COMMAND", "argv": ["sh", "-c", script], "retries": 1, "retry_delay": 0.1}
    job_id = submit(web, op=retried)
    assert web.cluster.wait(job_id) == ["success"]

    page = web.local.get(f"/ui/jobs/{job_id}").text
    assert "1 failed try before" in page
    assert "exit code 75" in page
    links = re.findall(rf'href="(/ui/jobs/{job_id}\?try=1)', page)
    assert links
    assert output_of(page) == "first\nsecond\n"
    assert output_of(web.local.get(links[0]).text) == "first\n"
    assert web.local.get(f"/ui/jobs/{job_id}?try=7").status_code == 404


def output_of(page: str) -> str:
    found = re.search(r'<div id="rows">(.*?)<div class="pager', page, re.DOTALL)
    assert found, page
    return re.sub("<[^>]*>", "", found[1]).removesuffix("\n")


def test_a_schedule_is_shown_paused_resumed_and_run_once_by_a_form_sent_twice(web: Web, operator: Visitor) -> None:
    form = {"cron": "0 2 * * *", "zone": "Europe/Athens", "job": [TRUE]}
    assert web.local.put("/3/schedules/nightly", json=form).status_code == 200
    shown = row_of(operator.get("/ui/schedules").text, "schedule-nightly")
    assert "0 2 * * * in Europe/Athens" in shown
    assert "/ui/schedules/pause" in shown

    assert "Pause schedule nightly?" in operator.post("/ui/schedules/pause", name="nightly").text
    operator.post("/ui/schedules/pause", name="nightly", sure="yes")
    paused = row_of(operator.get("/ui/schedules").text, "schedule-nightly")
    assert ("paused" in paused, "/ui/schedules/resume" in paused) == (True, True)
    operator.post("/ui/schedules/resume", name="nightly", sure="yes")
    asked = operator.post("/ui/schedules/run", name="nightly").text
    key = re.search(r'name="key" value="([^"]+)"', asked)
    assert key
    runs = [operator.post("/ui/schedules/run", name="nightly", key=key[1], sure="yes").text for _ in range(2)]

    first, second = (re.search(r'href="/ui/jobs/(\d+)"', text) for text in runs)
    assert first
    assert second
    assert first[1] == second[1]
    web.cluster.wait(int(first[1]))
    made = 'gantry_schedule_runs_total{state="submitted"} 1.0'
    wait_until(lambda: made in metrics(web), what="the numbers tell of the run")
    assert f"/ui/jobs/{first[1]}" in row_of(operator.get("/ui/schedules").text, "schedule-nightly")
    assert operator.post("/ui/schedules/pause", name="none").status_code == 404


def test_a_resource_is_shown_with_what_uses_it_and_how_many_wait(web: Web, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    web.local.put("/3/resources/licences", json={"total": 2})
    op = {"OP_ID": "OP_RUN_COMMAND", "argv": ["sh", "-c", f"until [ -e {gate} ]; do sleep 0.05; done"]}
    ids = [submit(web, op=op, uses={"licences": 2}) for _ in range(2)]

    def row() -> str:
        return web.local.get("/ui/resources").text.partition('id="resources"')[2]

    def figures() -> list[str]:
        return re.findall(r'<td class="n"[^>]*>([^<]*)</td>', row())

    wait_until(lambda: f"/ui/jobs/{ids[0]}" in row(), what="the first job to use them", state=row)
    wait_until(lambda: figures() == ["2", "2", "1"], what="the second one to wait", state=figures)
    assert '<meter min="0" max="100" value="100"' in row()
    # numbers are kept for a moment for those who scrape together
    wait_until(lambda: "gantry_resources_full 1.0\n" in metrics(web), what="the numbers tell that none is free")
    gate.touch()
    web.cluster.wait(*ids)
    wait_until(lambda: "gantry_resources_full 0.0\n" in metrics(web), what="the numbers tell that some are free")


def metrics(web: Web) -> str:
    return web.local.get("/metrics").text


def test_the_history_sums_up_what_the_visitor_chose(web: Web) -> None:
    web.cluster.wait(submit(web, name="told", labels={"team": "past"}))

    def page(**query: str) -> str:
        return web.local.get("/ui/history", params=query).text

    def shown() -> str:
        return page(where="label.team=past", by="label.team").partition('id="past"')[2]

    wait_until(lambda: "told" in shown(), what="the history has the job", state=shown)
    assert re.findall(r'<td>past</td><td class="n" data-name="jobs">(\d+)</td>', shown()) == ["1"]
    for query in ({"since": "no time"}, {"where": "name=("}, {"by": "nothing"}, {"by": "label.A B"}):
        assert 'class="notice wrong" role="alert"' in page(**query), query
    assert 'class="notice wrong"' not in page(since="", offset="7")


@pytest.mark.parametrize("text", ["0", "00", "9" * 18, "9" * 30, "", "web upgrade", "\x00"])
def test_what_is_no_id_of_a_job_is_looked_for_in_the_list(operator: Visitor, text: str) -> None:
    reply = operator.get(f"/ui/find?{urlencode({'where': text})}")

    assert reply.status_code == 303
    assert reply.headers["location"] == (f"/ui/jobs?{urlencode({'where': text})}" if text else "/ui/jobs")
