"""The page of every day: names, labels, holds, tries, schedules, resources, history."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from protocol.luxi.daemon import ReadMetrics
from tests.support.wait import wait_until
from tests.support.web.rapid import Web
from tests.support.web.visitor import Visitor

USERS = "op op-secret operate\nreader reader-secret read\n"
TRUE = {"OP_ID": "OP_RUN_COMMAND", "argv": ["true"]}
LATER = 4_000_000_000.0
FIRST_FAILS = "test -e {0} && echo second || { touch {0}; echo first; exit 75; }"


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    with Web(tmp_path_factory.mktemp("web")) as web:
        web.paths.rapi_users.parent.mkdir(parents=True, exist_ok=True)
        web.paths.rapi_users.write_text(USERS)
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
    for path in ("/ui/jobs/hold", "/ui/jobs/release", "/ui/schedules/pause", "/ui/schedules/run"):
        assert reader.post(path, job="1", name="nightly", sure="yes").status_code == 403, path
        assert path not in reader.get("/ui/jobs").text + reader.get("/ui/schedules").text


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
    found = re.search(r'<pre class="output"[^>]*>(.*?)</pre>', page, re.DOTALL)
    assert found, page
    return found[1]


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
