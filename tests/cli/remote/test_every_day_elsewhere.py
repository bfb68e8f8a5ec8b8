"""Holds, terms, keys, tries and the history with `--remote`: the same as here."""

import re
from pathlib import Path

import pytest

from tests.cli.remote.place import Capture, Place
from tests.support.wait import wait_until
from tests.support.web.rapid import Web

FIRST_FAILS = "test -e {0} && echo second || { touch {0}; echo first; exit 75; }"


@pytest.fixture(scope="module")
def there(web: Web, token: str) -> Place:
    token_file = web.paths.data / "every-day-token"
    token_file.write_text(f"{token}\n")
    token_file.chmod(0o600)
    return Place(("--remote", web.url, "--ca", str(web.paths.rapi_pem), "--token-file", str(token_file)))


def submitted(there: Place, capsys: Capture, *words: object) -> int:
    told = there.run(capsys, "run", *words)
    found = re.search(r"\d+", told.out)
    assert told.code == 0, told.err
    assert found, told
    return int(found[0])


def job(web: Web, job_id: int) -> dict[str, object]:
    found: dict[str, object] = web.local.get(f"/3/jobs/{job_id}").json()
    return found


def test_jobs_are_held_modified_released_and_canceled_by_one_call_each(web: Web, there: Place, capsys: Capture) -> None:
    ids = [submitted(there, capsys, "--name", "kept", "--begin", "in 3h", "--", "true") for _ in range(2)]
    assert {job(web, job_id)["name"] for job_id in ids} == {"kept"}

    assert there.run(capsys, "hold", "--why", "not yet", *ids).code == 0
    assert [bool(job(web, job_id)["hold"]) for job_id in ids] == [True, True]
    assert there.run(capsys, "modify", "--name", "other", "--label", "a=b", *ids).code == 0
    assert [(job(web, job_id)["name"], job(web, job_id)["labels"]) for job_id in ids] == [("other", {"a": "b"})] * 2
    assert there.run(capsys, "modify", "--use", "lic=2", "--after-all", ids[0], "--timeout", "5m", ids[1]).code == 0
    told = job(web, ids[1])
    assert told["uses"] == {"lic": 2}, told
    assert there.run(capsys, "change-priority", "--priority", "low", *ids).code == 0
    assert there.run(capsys, "release", *ids).code == 0
    assert [job(web, job_id)["hold"] for job_id in ids] == [None, None]
    assert there.run(capsys, "cancel", *ids).code == 0
    assert [job(web, job_id)["status"] for job_id in ids] == ["canceled", "canceled"]


def test_a_key_is_one_submission(web: Web, there: Place, capsys: Capture) -> None:
    first, again = (there.run(capsys, "run", "--key", "nightly-7", "--name", "n", "--", "true") for _ in range(2))

    assert (first.code, again.code) == (0, 0)
    assert re.findall(r"\d+", first.out)[:1] == re.findall(r"\d+", again.out)[:1]
    assert "already" in again.out + again.err
    web.cluster.wait(int(re.findall(r"\d+", first.out)[0]))


def test_tries_run_again_and_history(web: Web, there: Place, capsys: Capture, tmp_path: Path) -> None:
    script = FIRST_FAILS.replace("{0}", str(tmp_path / "x"))
    words = ("--name", "tried", "--retries", "1", "--retry-delay", "0.1s", "--", "sh", "-c", script)
    job_id = submitted(there, capsys, *words)
    assert web.cluster.wait(job_id) == ["success"]

    assert there.run(capsys, "output", "--try", "1", job_id).out == "first\n"
    new = re.search(r"\d+", there.run(capsys, "rerun", job_id).out)
    assert new
    web.cluster.wait(int(new[0]))

    def past() -> str:
        return there.run(capsys, "history", "--where", "name=tried").out

    wait_until(lambda: new[0] in past() and str(job_id) in past(), what="both are in the history", state=past)
    told = there.run(capsys, "history", "--summary", "--output", "json")
    assert (told.code, '"tried"' in told.out) == (0, True)
