"""Acts on ended jobs, and what is submitted, from the page."""

import re
from pathlib import Path

import pytest

from tests.browser.browser import WIDE, Browser
from tests.support.web.rapid import Web


def command(script: str, **fields: object) -> dict[str, object]:
    return {"OP_ID": "OP_RUN_COMMAND", "argv": ["sh", "-c", script], **fields}


def test_a_job_runs_again_with_its_dependents(web: Web, worker: Browser, tmp_path: Path) -> None:
    root = web.cluster.submit(command(f"[ -e {tmp_path / 'mended'} ]"))
    following = web.cluster.submit(command("true", depends=[[root, ["success"]]]))
    last = web.cluster.submit(command("true", depends=[[following, ["error"]], [root, []]]))
    assert web.cluster.wait(root, following, last) == ["error", "error", "success"]
    worker.open(f"{web.url}/ui/jobs/{root}")
    worker.press("run again with dependents")

    worker.wait_for("h1", text="Run 3 jobs again?")
    assert set(worker.ids("table.jobs tr[id]")) == {f"job-{job}" for job in (root, following, last)}
    worker.press("run again")
    worker.wait_for("h1", text="Run again: 3 of 3")

    new = [int(job) for job in re.findall(r"runs again as job (\d+)", worker.text("main"))]
    assert web.cluster.wait(*new) == ["error", "error", "success"]
    assert [web.cluster.job(job, "dependencies")[0] for job in new] == [[], [new[0]], [new[1], new[0]]]


def test_a_job_runs_again_from_its_failed_opcode_on(web: Web, worker: Browser, tmp_path: Path) -> None:
    mended, log = tmp_path / "mended", tmp_path / "log"
    old = web.cluster.submit(command(f"echo 1 >> {log}"), command(f"[ -e {mended} ]"), command(f"echo 3 >> {log}"))
    assert web.cluster.wait(old) == ["error"]
    mended.touch()
    worker.open(f"{web.url}/ui/jobs/{old}")
    worker.press("run again from the failed opcode")

    worker.wait_for("h1", text="Run 1 job again from the failed opcode on?")
    worker.wait_for("main", text=f"Job {old} begins again with its opcode 2 of 3.")
    worker.press("run 1 job again from the failed opcode on")
    worker.wait_for("main", text=f"job {old} runs again from its opcode 2 on as job")

    (new,) = re.findall(r"as job (\d+)", worker.text("main"))
    assert web.cluster.wait(int(new)) == ["success"]
    assert log.read_text() == "1\n3\n"


def test_an_ended_job_is_edited_and_runs_again_with_the_error_at_its_field(web: Web, worker: Browser) -> None:
    old = web.cluster.submit(command("exit 3", locks={"node/web1": "shared"}))
    assert web.cluster.wait(old) == ["error"]
    worker.open(f"{web.url}/ui/jobs/{old}")
    worker.follow("edit and run again …")

    worker.wait_for("#submit", text=f"filled with job {old}")
    assert worker.one("#f-locks").get_attribute("value") == "node/web1:shared"
    worker.type("#f-command", "sh -c 'exit 0")
    worker.press("look at it")
    worker.wait_for("#w-command", text="no closing quotation")
    assert worker.one("#f-command").get_attribute("value") == "sh -c 'exit 0"
    # the reply to a form with an error is told to the console, too
    worker.console()
    worker.type("#f-command", "sh -c 'exit 0'")
    worker.press("look at it")
    worker.wait_for("#look", text="node/web1 (shared)")
    worker.press("submit the job")

    worker.wait_for("h1", text="Submitted: 1 of 1")
    (new,) = re.findall(r"job (\d+)", worker.text("main"))
    assert web.cluster.wait(int(new)) == ["success"]
    worker.follow(f"job {new}")
    worker.wait_for("#jobhead", text=f"rerun-of={old}")


def test_a_plan_is_uploaded_looked_at_and_submitted(web: Web, worker: Browser, tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text("jobs:\n  - name: build\n    run: ['true']\n  - name: deploy\n    after: build\n    shel: 'true'\n")
    worker.open(f"{web.url}/ui/jobs")
    worker.follow("submit jobs …")
    worker.follow("a plan")
    worker.wait_for("#submit", text="a file, in place of the text below")
    worker.one("#file").send_keys(str(plan))
    worker.press("look at it")

    worker.wait_for("#w-plan", text="plan.yaml:6:11: no key 'shel' is known here; did you mean 'shell'?")
    worker.console()
    worker.type("#f-plan", plan.read_text().replace("shel:", "shell:"))
    worker.press("look at it")
    worker.wait_for("#look", text="2 jobs would be submitted")
    worker.press("submit 2 jobs")

    worker.wait_for("h1", text="Submitted: 2 of 2")
    ids = [int(job) for job in re.findall(r"job (\d+): (?:build|deploy)", worker.text("main"))]
    assert web.cluster.wait(*ids) == ["success", "success"]
    assert web.cluster.job(ids[1], "dependencies") == (ids[:1],)


@pytest.mark.parametrize("colours", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 800, 1440])
def test_forms_fit_the_window(web: Web, worker: Browser, width: int, colours: str, tmp_path: Path) -> None:
    worker.resize((width, 1000))
    try:
        worker.open(f"{web.url}/ui/submit")
        worker.press(colours)
        worker.wait_for("#submit", text="Submit jobs")
        worker.type("#f-command", "echo " + "a-long-word-" * 20)
        worker.type("#f-locks", "node/web1:neither")
        worker.press("look at it")
        worker.wait_for("#w-locks", text="is not a lock mode")
        worker.console()
        assert worker.overflow() <= 0
        worker.type("#f-locks", "node/web1:shared")
        worker.press("look at it")
        worker.wait_for("#look", text="would be submitted")
        worker.shoot(tmp_path / f"submit-{width}-{colours}.png")
        assert worker.overflow() <= 0
        worker.open(f"{web.url}/ui/schedules/edit")
        worker.type("#f-name", "a-long-name-" * 5)
        worker.type("#f-every", "90m")
        worker.type("#f-command", "echo " + "a-long-word-" * 20)
        worker.press("look at it")
        worker.wait_for("#look", text="Its next runs would be")
        worker.shoot(tmp_path / f"schedule-{width}-{colours}.png")
        assert worker.overflow() <= 0
    finally:
        worker.resize(WIDE)
        worker.press("auto")


def test_a_schedule_is_added_changed_and_deleted(web: Web, worker: Browser) -> None:
    worker.open(f"{web.url}/ui/schedules")
    worker.follow("add a schedule …")
    worker.type("#f-name", "nightly")
    worker.type("#f-cron", "0 2 * *")
    worker.type("#f-command", "true")
    worker.press("look at it")
    worker.wait_for("#w-cron", text="cron words are five")
    worker.console()
    worker.type("#f-cron", "0 2 * * *")
    worker.press("look at it")
    worker.wait_for("#look", text="02:00:00 UTC")
    assert len(worker.all("#look ul.lines li")) == 5
    worker.press("add the schedule")
    worker.wait_for("h1", text="Added")

    worker.open(f"{web.url}/ui/schedules")
    worker.wait_for("#schedule-nightly", text="0 2 * * * in UTC")
    worker.follow("change …")
    worker.wait_for("h1", text="Change schedule nightly")
    worker.type("#f-cron", "30 3 * * *")
    worker.press("look at it")
    worker.wait_for("#look", text="Its job stays as it is.")
    worker.press("change the schedule")
    worker.wait_for("h1", text="Changed")

    worker.open(f"{web.url}/ui/schedules")
    worker.wait_for("#schedule-nightly", text="30 3 * * * in UTC")
    worker.press("delete")
    worker.wait_for("h1", text="Delete schedule nightly?")
    worker.press("delete it")
    worker.wait_for("h1", text="Deleted")
    worker.open(f"{web.url}/ui/schedules")
    worker.wait_for("#schedules", text="There is no schedule")
