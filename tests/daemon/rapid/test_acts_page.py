"""Acts on ended jobs, and what is submitted, from the page (DESIGN sections 15 and 16)."""

import os
import pwd
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.support.web.rapid import Web
from tests.support.web.visitor import Visitor

ME = pwd.getpwuid(os.getuid()).pw_name
USERS = f"op op-secret operate,unix={ME}\nreader reader-secret read\n"


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    with Web(tmp_path_factory.mktemp("acts")) as web:
        web.put_users(USERS)
        web.start()
        yield web


@pytest.fixture
def operator(web: Web) -> Visitor:
    visitor = Visitor(web)
    assert visitor.log_in("op", "op-secret").status_code == 303
    return visitor


def command(script: str, **fields: Any) -> dict[str, Any]:
    return {"OP_ID": "OP_RUN_COMMAND", "argv": ["sh", "-c", script], **fields}


def hidden(page: str) -> dict[str, list[str]]:
    """The hidden fields of the form that asks."""
    (form,) = re.findall(r'<div class="body"><form.*?</form>', page, re.DOTALL)
    pairs = re.findall(r'<input type="hidden" name="([\w-]+)" value="([^"]*)">', form)
    return {name: [unescape(value) for each, value in pairs if each == name] for name, _ in pairs}


def confirm(operator: Visitor, path: str, page: str, **more: str) -> httpx2.Response:
    """Send the form of a page that asks."""
    return operator.client.post(path, data={**hidden(page), "sure": "yes", **more})


def successors(page: str) -> list[int]:
    told = unescape(re.sub(r"<[^>]*>", "", page))
    return [int(job_id) for job_id in re.findall(r"runs again.*? as job (\d+)", told)]


def test_a_job_and_its_dependents_are_listed_and_run_again_once(web: Web, operator: Visitor) -> None:
    root = web.cluster.submit(command("false"))
    following = web.cluster.submit(command("true", depends=[[root, ["success"]]]))
    beside = web.cluster.submit(command("true"))
    assert web.cluster.wait(root, following, beside) == ["error", "error", "success"]
    path = "/ui/jobs/rerun-dependents"
    assert path in operator.get(f"/ui/jobs/{root}").text

    asked = operator.post(path, job=str(root)).text
    assert "Run 2 jobs again?" in asked
    assert hidden(asked)["job"] == [str(following), str(root)] or hidden(asked)["job"] == [str(root), str(following)]
    done = confirm(operator, path, asked).text
    again = confirm(operator, path, asked).text

    assert "Run again: 2 of 2" in done
    assert "this form was sent before" in again
    assert successors(done) == successors(again)
    new = successors(done)
    assert web.cluster.wait(*new) == ["error", "error"]
    assert [web.cluster.job(job, "dependencies")[0] for job in new] == [[], new[:1]]
    assert "No other job depends on these." in operator.post(path, job=str(beside)).text


def test_a_job_runs_again_from_its_failed_opcode_on(web: Web, operator: Visitor, tmp_path: Path) -> None:
    log = tmp_path / "log"
    old = web.cluster.submit(command(f"echo 1 >> {log}"), command(f"echo 2 >> {log}; exit 3"))
    well = web.cluster.submit(command("true"))
    assert web.cluster.wait(old, well) == ["error", "success"]
    path = "/ui/jobs/rerun-from-failed"
    assert path in operator.get(f"/ui/jobs/{old}").text
    assert path not in operator.get(f"/ui/jobs/{well}").text

    refused = operator.post(path, job=str(well)).text
    assert f"No opcode of job {well} failed, it ended as success" in refused
    assert 'value="yes"' not in refused
    asked = operator.post(path, job=str(old)).text
    assert f"Job {old} begins again with its opcode 2 of 2." in asked
    (new,) = successors(confirm(operator, path, asked).text)

    assert web.cluster.wait(new) == ["error"]
    assert log.read_text() == "1\n2\n2\n"


def test_who_may_only_read_is_shown_no_act_and_refused(web: Web) -> None:
    reader = Visitor(web)
    reader.log_in("reader", "reader-secret")

    for path in ("/ui/jobs/rerun-dependents", "/ui/jobs/rerun-from-failed"):
        assert reader.post(path, job="1", sure="yes").status_code == 403
        assert path not in reader.get("/ui/jobs").text


def fields(page: str) -> dict[str, str]:
    """What the form for jobs or a schedule says, as a browser without script would send it."""
    (form,) = re.findall(r'<form class="sheet stack".*?</form>', page, re.DOTALL)
    found = dict(re.findall(r'<input type="(?:hidden|text)" name="([\w.-]+)"[^>]*? value="([^"]*)"', form))
    found |= dict(re.findall(r'<textarea name="([\w-]+)"[^>]*>\n(.*?)</textarea>', form, re.DOTALL))
    found |= dict.fromkeys(re.findall(r'<input type="checkbox" name="([\w-]+)"[^>]* checked', form), "yes")
    for name, options in re.findall(r'<select name="([\w-]+)".*?>(.*?)</select>', form, re.DOTALL):
        found[name] = re.findall(r'<option value="([^"]*)" selected', options)[0]
    return {name: unescape(value) for name, value in found.items()}


def send(operator: Visitor, page: str, file: tuple[str, bytes] | None = None, **more: str) -> httpx2.Response:
    """Send the form that a page has, as browsers do, with other texts in some fields."""
    (path,) = re.findall(r'<form class="sheet stack" method="post" action="([^"]+)"', page)
    return operator.client.post(path, data={**fields(page), **more}, files={"file": file or ("", b"")})


def submitted(reply: httpx2.Response) -> list[int]:
    assert "<h1>Submitted: " in reply.text, reply.text
    return [int(job_id) for job_id in re.findall(r'<li><a href="/ui/jobs/(\d+)">', reply.text)]


def test_a_command_is_submitted_by_a_form_after_a_look_and_once(web: Web, operator: Visitor, tmp_path: Path) -> None:
    before = web.cluster.submit(command("true"))
    assert "/ui/submit" in operator.get("/ui/jobs").text
    looked = send(
        operator,
        operator.get("/ui/submit").text,
        command=f"echo 'two words' $HOME >> {tmp_path}/out",
        shell="yes",
        locks="node/web1:shared node/db1",
        name="form",
        labels="team=web 'note=two words'",
        priority="high",
        reason="by hand",
        after=f"{before}:any",
        timeout="5m",
        env="A=b 'C=d e'",
    )
    assert looked.status_code == 200
    assert "1 job would be submitted" in looked.text
    assert "node/web1 (shared), node/db1 (exclusive)" in looked.text
    last = web.cluster.submit(command("true"))

    done = send(operator, looked.text, sure="yes")
    again = send(operator, looked.text, sure="yes")

    (job_id,) = submitted(done)
    assert job_id == last + 1
    assert "this form was sent before" in again.text
    assert submitted(again) == [job_id]
    assert web.cluster.wait(job_id) == ["success"]
    ops, name, labels, priorities = web.cluster.job(job_id, "ops", "name", "labels", "oppriority")
    assert (name, labels, priorities) == ("form", {"team": "web", "note": "two words"}, [-10])
    assert ops[0]["locks"] == {"node/web1": "shared", "node/db1": "exclusive"}
    assert (ops[0]["timeout"], ops[0]["env"], ops[0]["shell"]) == (300.0, {"A": "b", "C": "d e"}, True)
    assert ops[0]["depends"] == [[before, ["canceled", "error", "success"]]]
    assert "by hand" in [entry[1] for entry in ops[0]["reason"]]
    assert (tmp_path / "out").read_text().startswith("two words ")


def test_a_time_from_now_on_is_that_of_the_look(web: Web, operator: Visitor) -> None:
    looked = send(operator, operator.get("/ui/submit").text, command="true", begin="in 3h").text
    assert "not before" in looked

    first, again = send(operator, looked, sure="yes"), send(operator, looked, sure="yes")

    (job_id,) = submitted(first)
    assert submitted(again) == [job_id]
    begin_at = web.local.get(f"/3/jobs/{job_id}").json()["begin_ts"]
    assert abs(begin_at - float(fields(looked)["at"]) - 3 * 3600) <= 1
    strange = send(operator, looked, sure="yes", at="x", key="")
    assert submitted(strange) != [job_id]
    web.local.post("/3/jobs/cancel", json={"filter": "begin > 1 & status=queued"})


def test_what_was_not_looked_at_is_not_submitted(web: Web, operator: Visitor) -> None:
    last = web.cluster.submit(command("true"))
    unseen = send(operator, operator.get("/ui/submit").text, command="true", sure="yes")
    changed = send(operator, send(operator, unseen.text).text, command="false", sure="yes")

    for reply in (unseen, changed):
        assert "The form was changed since it was looked at" in reply.text
    assert fields(changed.text)["command"] == "false"
    assert web.cluster.submit(command("true")) == last + 1


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"command": ""}, "write a command, as in"),
        ({"command": "echo 'a"}, "the words cannot be told apart: no closing quotation"),
        ({"locks": "node/a:both"}, "'both' is not a lock mode"),
        ({"locks": "node/a node/a:shared"}, "names 'node/a' as shared and as exclusive"),
        ({"labels": "team"}, "'team' is not a label"),
        ({"labels": "T eam=x"}, "'T' is not a label"),
        ({"after": "soon"}, "'soon' names no job"),
        ({"after": "7:done"}, "no job ends as 'done'"),
        ({"begin": "one day"}, "one day"),
        ({"timeout": "long"}, "'long' is not a duration"),
        ({"cwd": "here"}, "cwd must be an absolute path"),
        ({"node": "a/b"}, "node must be the name of a node"),
        ({"priority": "highest"}, "no priority is 'highest'"),
        ({"env": "=x"}, "'=x' is not a variable"),
        ({"name": "x" * 500}, "a job's name has at most"),
    ],
)
def test_an_error_stands_at_its_field_and_all_texts_are_kept(
    operator: Visitor, wrong: dict[str, str], told: str
) -> None:
    texts = {"command": "echo '<b>' \"&\"", "locks": "node/web1", "labels": "a=b", **wrong}

    reply = send(operator, operator.get("/ui/submit").text, None, **texts)

    assert reply.status_code == 400
    (name,) = wrong
    (shown,) = re.findall(r'<span class="bad" role="alert" id="w-([\w]+)">(.*?)</span>', reply.text)
    assert shown[0] == name
    assert told in unescape(shown[1])
    kept = fields(reply.text)
    assert {key: kept[key] for key in texts if key != "priority"} == {
        key: value for key, value in texts.items() if key != "priority"
    }


PLAN = b"""\
defaults: {labels: {team: web}}
jobs:
  - name: build
    run: ['true']
    locks: node/web1
  - name: deploy
    after: build
    shell: "true && echo \xc3\xa9"
"""


def test_a_plan_is_uploaded_looked_at_and_submitted_once(web: Web, operator: Visitor) -> None:
    looked = send(operator, operator.get("/ui/submit?kind=plan").text, ("plan.yaml", PLAN))

    assert "2 jobs would be submitted" in looked.text
    assert "number 1 (success)" in looked.text
    assert fields(looked.text)["plan"] == PLAN.decode()
    done = send(operator, looked.text, sure="yes")
    again = send(operator, looked.text, sure="yes")

    build, deploy = submitted(done)
    assert submitted(again) == [build, deploy]
    assert web.cluster.wait(build, deploy) == ["success", "success"]
    assert web.cluster.job(deploy, "name", "labels", "dependencies") == ("deploy", {"team": "web"}, [build])


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("p.yaml", b"jobs:\n  - name: build\n    rum: [make]\n", "p.yaml:3:10: no key 'rum' is known here"),
        ("p.json", b'{"jobs": [\n  {"ops": [{"OP_ID": "OP_RUN_COMMAND"}]}]}', "p.json:2:"),
        ("p.json", b'{"jobs": [\n', "p.json:2:1: not JSON"),
        ("p.yaml", b"jobs: [\n", "not YAML"),
        ("C:\\plans\\p.yaml", b"jobs:\n - \xff", "p.yaml:2:1: not YAML: byte 10 is not UTF-8"),
        ("p.yaml", b"x: " + b"a" * 2**20, "the page takes at most 1,048,576"),
        ("p.json", b'[[{"OP_ID": "OP_TEST_DUMMY"}]' + b',[{"OP_ID": "OP_TEST_DUMMY"}]' * 1000 + b"]", "has 1,001 jobs"),
        ("p.yaml", b"a: &a [x, x, x, x, x, x, x, x]\n" + b"\n".join(
            b"%c: &%c [%s]" % (98 + n, 98 + n, b",".join([b"*%c" % (97 + n)] * 9)) for n in range(8)
        ), "its aliases make more than"),
        ("p.yaml", b"", "choose a file, or write a plan here"),
    ],
)  # fmt: skip
def test_a_malformed_plan_is_told_with_its_line(operator: Visitor, name: str, content: bytes, told: str) -> None:
    reply = send(operator, operator.get("/ui/submit?kind=plan").text, (name, content))

    assert reply.status_code == 400
    (shown,) = re.findall(r'<span class="bad" role="alert" id="w-plan">(.*?)</span>', reply.text)
    assert told in unescape(shown)
    if len(content) < 1000 and b"\xff" not in content:
        assert fields(reply.text)["plan"] == content.decode()


def test_an_ended_command_is_edited_and_runs_again(web: Web, operator: Visitor) -> None:
    op = {"OP_ID": "OP_RUN_COMMAND", "argv": ["sh", "-c", "exit 3"], "locks": {"node/web1": "shared"}, "cwd": "/tmp"}
    reply = web.local.post("/3/jobs", json={"jobs": [{"ops": [op], "name": "old", "labels": {"team": "web"}}]})
    old = reply.json()["jobs"][0]["id"]
    assert web.cluster.wait(old) == ["error"]
    assert f"/ui/submit?of={old}" in operator.get(f"/ui/jobs/{old}").text

    form = operator.get(f"/ui/submit?of={old}").text
    texts = fields(form)
    assert (texts["command"], texts["locks"], texts["name"]) == ("sh -c 'exit 3'", "node/web1:shared", "old")
    assert (texts["labels"], texts["cwd"]) == (f"team=web rerun-of={old}", "/tmp")
    looked = send(operator, form, command="sh -c 'exit 0'").text
    (new,) = submitted(send(operator, looked, sure="yes"))

    assert web.cluster.wait(new) == ["success"]
    assert web.cluster.job(new, "name", "labels") == ("old", {"team": "web", "rerun-of": str(old)})


def test_any_other_ended_job_is_edited_as_a_plan(web: Web, operator: Visitor, tmp_path: Path) -> None:
    old = web.cluster.submit(
        {"OP_ID": "OP_TEST_DELAY", "duration": 0.01, "comment": "\u202eevil</textarea>"},
        command(f"exit $(cat {tmp_path}/code || echo 3)", retries=1, retry_delay=0.0),
    )
    assert web.cluster.wait(old) == ["error"]
    form = operator.get(f"/ui/submit?of={old}").text

    plan = fields(form)["plan"]
    assert '"retries": 1' in plan
    assert '"depends"' not in plan
    assert "\\u202eevil</textarea>" in plan
    assert "&lt;/textarea&gt;" in form
    (tmp_path / "code").write_text("0")
    looked = send(operator, form, plan=plan.replace("0.01", "0.02"))
    (new,) = submitted(send(operator, looked.text, sure="yes"))

    assert web.cluster.wait(new) == ["success"]
    ops = web.cluster.job(new, "ops")[0]
    assert (ops[0]["duration"], ops[0]["comment"], ops[1]["retries"]) == (0.02, "\u202eevil</textarea>", 1)


def test_forms_of_strangers_and_of_jobs_that_cannot_run_again_are_refused(web: Web, operator: Visitor) -> None:
    held = web.local.post("/3/jobs", json={"jobs": [{"ops": [command("true")], "hold": ""}]}).json()["jobs"][0]["id"]
    assert operator.get(f"/ui/submit?of={held}").status_code == 409
    assert operator.get("/ui/submit?of=999999").status_code == 404
    assert operator.get("/ui/submit?of=x").status_code == 404
    web.local.post("/3/jobs/cancel", json={"ids": [held]})

    form = operator.get("/ui/submit").text
    assert send(operator, form, token="0" * 64, command="true").status_code == 403
    reader = Visitor(web)
    reader.log_in("reader", "reader-secret")
    assert reader.get("/ui/submit").status_code == 403
    assert reader.post("/ui/submit", command="true", sure="yes").status_code == 403
    assert "/ui/submit" not in reader.get("/ui/jobs").text


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("multipart/form-data", b"x"),
        ("multipart/form-data; boundary=", b"x"),
        (
            "multipart/form-data; boundary=b",
            b'--b\r\nContent-Disposition: form-data; name="a"\r\n\r\n\xff\r\n--b--\r\n',
        ),
        (
            "multipart/form-data; boundary=b",
            b'--b\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n' * 102 + b"--b--\r\n",
        ),
        ("multipart/mixed; boundary=b", b"--b--"),
        ("multipart/form-data; boundary=b", b"--b\r\n" * 50),
    ],
)
def test_a_malformed_body_of_a_form_is_refused(operator: Visitor, content_type: str, body: bytes) -> None:
    reply = operator.client.post("/ui/submit", content=body, headers={"Content-Type": content_type})

    assert reply.status_code in (400, 403, 415)
    assert "Traceback" not in reply.text


def test_a_schedule_is_added_after_a_look_at_its_next_runs_and_once(web: Web, operator: Visitor) -> None:
    assert "/ui/schedules/edit" in operator.get("/ui/schedules").text
    looked = send(
        operator,
        operator.get("/ui/schedules/edit").text,
        name="nightly",
        cron="0 2 * * *",
        zone="Europe/Athens",
        overlap="queue",
        spread="10m",
        command="echo 'two words'",
        locks="node/web1:shared",
        labels="team=web",
        reason="each night",
    )
    runs = re.findall(r"<li>\w{3} \d{4}-\d\d-\d\d 02:00:00 EES?T, in .*?</li>", looked.text)
    assert len(runs) == 5, looked.text
    assert "Each begins up to 10m" in looked.text
    assert web.local.get("/3/schedules/nightly").status_code == 404

    done = send(operator, looked.text, sure="yes")
    again = send(operator, looked.text, sure="yes")

    assert "<h1>Added</h1>" in done.text, done.text
    assert "this form was sent before" in unescape(again.text), again.text
    schedule = web.local.get("/3/schedules/nightly").json()["schedule"]
    assert (schedule["cron"], schedule["zone"], schedule["overlap"]) == ("0 2 * * *", "Europe/Athens", "queue")
    assert schedule["spread_s"] == 600
    assert (schedule["job"][0]["argv"], schedule["job"][0]["locks"]) == (["echo", "two words"], {"node/web1": "shared"})
    form = fields(operator.get("/ui/schedules/edit?name=nightly").text)
    assert (form["command"], form["locks"], form["labels"]) == ("echo 'two words'", "node/web1:shared", "team=web")
    assert form["reason"] == "each night"
    other = send(operator, send(operator, looked.text, command="other").text, sure="yes")
    assert other.status_code == 409
    assert re.search(r'id="w-name">there is a schedule', other.text)


def test_a_schedule_is_changed_and_its_job_stays_unless_its_fields_change(web: Web, operator: Visitor) -> None:
    job = [{"OP_ID": "OP_RUN_COMMAND", "argv": ["true"], "retries": 2, "env": {"A": "one\ntwo"}}]
    made = web.local.put("/3/schedules/tidy", json={"cron": "0 2 * * *", "zone": "Europe/Athens", "job": job})
    assert made.status_code == 200, made.text
    before = made.json()["schedule"]["job"]

    form = operator.get("/ui/schedules/edit?name=tidy").text
    assert '"retries": 2' in fields(form)["plan"]
    looked = send(operator, form, cron="", zone="", every="90m")
    assert "Its job stays as it is." in looked.text
    assert "<h1>Changed</h1>" in send(operator, looked.text, sure="yes").text

    schedule = web.local.get("/3/schedules/tidy").json()["schedule"]
    assert (schedule["cron"], schedule["every_s"], schedule["job"]) == ("", 5400, before)
    form = operator.get("/ui/schedules/edit?name=tidy&kind=command").text
    looked = send(operator, form, command="false", every="", cron="@daily")
    assert "RUN_COMMAND(false)" in looked.text
    send(operator, looked.text, sure="yes")
    schedule = web.local.get("/3/schedules/tidy").json()["schedule"]
    assert (schedule["cron"], schedule["zone"], schedule["job"][0]["argv"]) == ("@daily", "UTC", ["false"])


def test_what_somebody_has_changed_since_the_form_was_opened_is_not_overwritten(web: Web, operator: Visitor) -> None:
    assert web.local.put("/3/schedules/both", json={"every_s": 3600, "job": [command("true")]}).status_code == 200
    looked = send(operator, operator.get("/ui/schedules/edit?name=both").text, every="2h")
    assert web.local.patch("/3/schedules/both", json={"every_s": 1800}).status_code == 200

    refused = send(operator, looked.text, sure="yes")

    assert refused.status_code == 412
    assert "Somebody has changed the schedule since this form was opened" in refused.text
    assert fields(refused.text)["every"] == "2h"
    assert web.local.get("/3/schedules/both").json()["schedule"]["every_s"] == 1800
    looked = send(operator, operator.get("/ui/schedules/edit?name=both").text, every="2h")
    assert "<h1>Changed</h1>" in send(operator, looked.text, sure="yes").text
    # once more changes nothing
    assert "<h1>Changed</h1>" in send(operator, looked.text, sure="yes").text


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"name": ""}, "a schedule needs a name"),
        ({"cron": "0 2 * *"}, "cron words are five"),
        ({"cron": "0 2 30 2 *"}, "no month that they name has the day 30"),
        ({"cron": ""}, "say when it runs"),
        ({"every": "90m"}, "one of both"),
        ({"every": "soon", "cron": ""}, "'soon' is not a duration"),
        ({"every": "0.5", "cron": ""}, "an interval has whole seconds"),
        ({"zone": "Europe/Nowhere"}, "Europe/Nowhere"),
        ({"overlap": "both"}, "'both' is not one of"),
        ({"missed": "never"}, "'never' is not one of"),
        ({"spread": "9999d"}, "the spread of a schedule is"),
        ({"command": ""}, "write a command"),
        ({"locks": "node/a:both"}, "'both' is not a lock mode"),
    ],
)
def test_an_error_of_a_schedule_stands_at_its_field(operator: Visitor, wrong: dict[str, str], told: str) -> None:
    texts = {"name": "wrong", "cron": "0 2 * * *", "command": "true", "labels": "a=b", **wrong}

    reply = send(operator, operator.get("/ui/schedules/edit").text, None, **texts)

    assert reply.status_code == 400
    found = dict(re.findall(r'<span class="bad" role="alert" id="w-(\w+)">(.*?)</span>', reply.text))
    assert told in unescape(found[next(iter(wrong))])
    kept = fields(reply.text)
    assert {key: kept[key] for key in texts if key not in ("overlap", "missed")} == {
        key: value for key, value in texts.items() if key not in ("overlap", "missed")
    }


def test_what_luxid_refuses_of_a_schedule_is_told_and_the_texts_are_kept(operator: Visitor) -> None:
    form = operator.get("/ui/schedules/edit").text
    looked = send(operator, form, name="no such name!", every="1h", command="true")

    reply = send(operator, looked.text, sure="yes")

    assert reply.status_code == 400
    assert re.search(r'id="w-name">no schedule can be named', reply.text)
    assert fields(reply.text)["command"] == "true"
    two = b"jobs: [{run: [a]}, {run: [b]}]"
    plan = send(operator, operator.get("/ui/schedules/edit?kind=plan").text, ("p.yaml", two), name="two", every="1h")
    assert "a schedule has one job, and the plan holds 2" in plan.text


def test_a_schedule_is_deleted_after_a_question_and_once(web: Web, operator: Visitor) -> None:
    assert web.local.put("/3/schedules/gone", json={"every_s": 3600, "job": [command("true")]}).status_code == 200
    assert "/ui/schedules/delete" in operator.get("/ui/schedules").text

    asked = operator.post("/ui/schedules/delete", name="gone").text
    assert "Delete schedule gone?" in asked
    assert web.local.get("/3/schedules/gone").status_code == 200
    assert "is no more; its jobs stay" in confirm(operator, "/ui/schedules/delete", asked).text
    assert "was deleted before" in confirm(operator, "/ui/schedules/delete", asked).text
    assert web.local.get("/3/schedules/gone").status_code == 404
    assert operator.get("/ui/schedules/edit?name=gone").status_code == 404


def test_schedules_are_changed_only_by_their_roles_and_own_forms(web: Web, operator: Visitor) -> None:
    form = operator.get("/ui/schedules/edit").text
    assert send(operator, form, token="0" * 64, name="forged", every="1h", command="true").status_code == 403
    reader = Visitor(web)
    reader.log_in("reader", "reader-secret")
    for path in ("/ui/schedules/edit", "/ui/schedules/delete"):
        assert reader.post(path, name="nightly", sure="yes").status_code == 403
    assert reader.get("/ui/schedules/edit").status_code == 403
    assert "/ui/schedules/edit" not in reader.get("/ui/schedules").text


def test_what_luxid_refuses_of_jobs_is_told_and_the_texts_are_kept(web: Web, operator: Visitor) -> None:
    looked = send(operator, operator.get("/ui/submit").text, command="true", after="999999")

    refused = send(operator, looked.text, sure="yes")

    assert refused.status_code == 400
    assert re.search(r'<p class="notice wrong" role="alert">[^<]*999999', refused.text), refused.text
    assert (fields(refused.text)["command"], fields(refused.text)["after"]) == ("true", "999999")
    looked = send(operator, operator.get("/ui/submit").text, command="true")
    assert web.local.post("/3/queue/drain").status_code == 200
    try:
        drained = send(operator, looked.text, sure="yes")
    finally:
        web.local.post("/3/queue/undrain")
    assert drained.status_code >= 400
    assert "drain" in drained.text
