"""Rules of `[notify]`: which fit, what is told, how it is signed, when it is tried again (everyday.md h)."""

import base64
import hashlib
import hmac
from pathlib import Path

import attrs
import orjson
import pytest

from common.errors import InvalidRequest
from common.featuresettings import GIVE_UP_S, PAUSES_S, NotifyRule
from common.ids import JobId
from common.notify import (
    BatchEnd,
    JobLocation,
    JobNotification,
    Subject,
    headers,
    matching_rules,
    message_id,
    payload,
    read_secret,
)
from common.opcodes.command import OpNotify
from common.queue.jobs import Job, JobOp, JobState
from common.queue.reasons import submitter_entry
from common.queue.terms import JobTerms, terms_entry
from common.settingsfile import load_settings
from daemons.jobproc.units.posting import is_allowed

PROGRAM = ("/bin/true",)
PLACE = JobLocation("c1", "u-u-i-d", "https://m/ui/jobs/")


def job(state: JobState = JobState.ERROR, result: object = None) -> Job:
    terms = terms_entry(JobTerms(name="backup-web1", labels={"team": "web", "prod": ""}), 0)
    trail = [terms.to_wire(), submitter_entry("ada", 0).to_wire()]
    secret = {"OP_ID": "OP_RUN_COMMAND", "argv": ["curl", "-u", "hunter2"], "env": {"TOKEN": "hunter2"}}
    op = JobOp(input={**secret, "reason": trail}, priority=0, extra={}, state=state, result=result)
    return Job(JobId(17), (op,), received_at=(1_790_000_000, 500_000), end_at=(1_790_000_100, 0))


def rule(**changes: object) -> NotifyRule:
    return NotifyRule(**{"program": PROGRAM, **changes})  # type: ignore[arg-type]  # of the test's own keys


@pytest.mark.parametrize(
    ("wanted", "event", "fits"),
    [
        (rule(), "error", True),
        (rule(), "success", False),
        (rule(on=("end",)), "success", True),
        (rule(on=("end",)), "recovered", False),
        (rule(labels=("team=web", "prod")), "error", True),
        (rule(labels=("team=db",)), "error", False),
        (rule(labels=("team=web", "other")), "error", False),
        (rule(names=("db*", "backup-*")), "error", True),
        (rule(names=("BACKUP-*",)), "error", False),
        (rule(users=("ada",)), "error", True),
        (rule(users=("bob",)), "error", False),
    ],
)
def test_a_rule_fits_by_event_labels_name_and_user(wanted: NotifyRule, event: str, fits: bool) -> None:
    assert matching_rules({"r": wanted}, Subject.of(job()), event) == (["r"] if fits else [])


def test_neither_arguments_nor_environment_nor_output_are_told() -> None:
    failed = job(result=["CommandFailed", ["'curl' ended; last output: hunter2", {"exit_code": 75, "signal": None}]])

    text = payload(JobNotification("ops", "error"), Subject.of(failed), PLACE)

    assert "hunter2" not in text
    assert orjson.loads(text) == {
        "id": "u-u-i-d-17-error-ops",
        "event": "error",
        "cluster": "c1",
        "job": 17,
        "name": "backup-web1",
        "labels": {"team": "web", "prod": ""},
        "user": "ada",
        "status": "error",
        "exit_code": 75,
        "received": "2026-09-21T14:13:20.500+00:00",
        "started": None,
        "ended": "2026-09-21T14:15:00.000+00:00",
        "rule": "ops",
        "url": "https://m/ui/jobs/17",
    }


def test_a_batch_is_one_event_whichever_job_ended_last() -> None:
    batch = JobNotification("ops", "error", BatchEnd("b7", {"success": 2, "error": 1}))

    assert message_id(batch, job(), PLACE) == "u-u-i-d-batch-b7-error-ops"
    assert batch.key(17) == batch.key(18) == "notify/batch-b7/error/ops"
    told = orjson.loads(payload(batch, Subject.of(job()), PLACE))
    assert (told["batch"], told["jobs"], told["status"]) == ("b7", {"success": 2, "error": 1}, "error")


def test_a_delivery_is_signed_as_standard_webhooks_says() -> None:
    raw = b"0123456789abcdef"
    keys = read_secret(f"whsec_{base64.b64encode(raw).decode()}\nan-older-secret-of-text\n")

    told = headers("m.1", 1_790_000_000, b"{}", keys)

    new, old = told["webhook-signature"].split()
    assert new == "v1," + base64.b64encode(hmac.digest(raw, b"m.1.1790000000.{}", hashlib.sha256)).decode()
    assert old == (
        "v1," + base64.b64encode(hmac.digest(b"an-older-secret-of-text", b"m.1.1790000000.{}", hashlib.sha256)).decode()
    )
    assert "webhook-signature" not in headers("m.1", 0, b"", ())


@pytest.mark.parametrize("text", ["", "\n", "short", "whsec_!!!", "whsec_c2hvcnQ="])
def test_a_poor_secret_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest):
        read_secret(text)


def test_it_is_tried_again_for_a_day() -> None:
    op = OpNotify(rule="r", message_id="m", payload="{}", pauses=PAUSES_S)

    at, pauses = 1000.0, []
    for tries in range(1, 20):
        following = op.next_try_at(tries, 1000.0, at)
        if following is None:
            break
        pauses.append(following - at)
        at = following

    assert pauses[:6] == list(PAUSES_S[:6])
    assert at == 1000.0 + GIVE_UP_S
    assert len(pauses) == len(PAUSES_S)


@pytest.mark.parametrize(
    ("address", "listed", "is_fine"),
    [
        ("8.8.8.8", (), True),
        ("127.0.0.1", (), False),
        ("::ffff:127.0.0.1", (), False),
        ("10.1.2.3", (), False),
        ("10.1.2.3", ("10.1.0.0/16",), True),
        ("10.2.2.3", ("10.1.0.0/16",), False),
        ("169.254.169.254", (), False),
        ("fe80::1%eth0", (), False),
        ("::1", ("127.0.0.0/8", "::1"), True),
        ("224.0.0.1", (), False),
    ],
)
def test_private_addresses_are_posted_to_only_if_listed(address: str, listed: tuple[str, ...], is_fine: bool) -> None:
    assert is_allowed(address, listed) is is_fine


def test_rules_are_tables_of_the_settings(tmp_path: Path) -> None:
    (tmp_path / "gantry.toml").write_text(
        "[notify]\nat_once = 2\n[notify.rules.ops]\non = ['end']\nprogram = ['/bin/page', '-v']\nretry_s = [1, 2.5]\n"
    )

    found = load_settings(tmp_path, {}).notify

    assert found.rules == {"ops": NotifyRule(on=("end",), program=("/bin/page", "-v"), retry_s=(1.0, 2.5))}
    assert attrs.evolve(found, rules={}).is_on is False


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("program = ['page']", "absolute path"),
        ("url = 'ftp://x/'", "https://host"),
        ("url = 'http://u:p@x/'", "without a user"),
        ("url = 'http://x:port/'", "https://host"),
        ("on = ['fail']\nurl = 'http://x/'", "success, error"),
        ("", "either a program or a url"),
        ("url = 'http://x/'\nprogram = ['/bin/a']", "either a program or a url"),
        ("prgram = ['/bin/a']", "unknown key 'prgram' in '[notify.rules.ops]'"),
        ("url = 7", "'url' in '[notify.rules.ops]' must be a string"),
        ("program = ['/a']\nsecret_file = '/b'", "secret_file"),
    ],
)
def test_a_malformed_rule_is_refused_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "gantry.toml").write_text(f"[notify.rules.ops]\n{text}\n")

    with pytest.raises(InvalidRequest, match=r"notify\.rules\.ops") as refused:
        load_settings(tmp_path, {})

    assert said in refused.value.message
