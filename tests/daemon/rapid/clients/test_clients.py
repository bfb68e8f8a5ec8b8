"""The clients of /3, with and without a loop, against a real server."""

import time
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from common.errors import JobLost, RemoteError, Unavailable
from common.ids import JobId
from common.nodes.certificates import fingerprint_of
from common.objects.filter import Action, ActionKind
from common.queue.jobs import JobState
from common.webaccess.tokens import NewToken, TokensFile
from protocol.luxi.feed import FeedChanges, OutputPlace, read_changes
from protocol.luxi.jobs import OutputStream
from protocol.rapid.clients.blocking import RapidClient
from protocol.rapid.clients.calls import follow_jobs
from protocol.rapid.clients.place import Place
from protocol.rapid.clients.replies import Event, EventParser, News
from protocol.rapid.clients.trioclient import TrioRapidClient
from protocol.rapid.cluster import FilterWish
from protocol.rapid.events import Begin, FollowWish, JobsChanged, Topic
from protocol.rapid.jobactions import CancelMany
from tests.support.accounts.users import OWN_LOGIN
from tests.support.machines.nodes import HOST
from tests.support.sockets.ports import free_port
from tests.support.wait import wait_until
from tests.support.web.rapid import Web

DELAY = {"OP_ID": "OP_TEST_DELAY", "duration": 0.01}
LONG = {"OP_ID": "OP_TEST_DELAY", "duration": 600.0}


@pytest.fixture(scope="module")
def place(web: Web) -> Place:
    token = TokensFile(web.paths).create(NewToken("ci", ("operate",), None, OWN_LOGIN), time.time())[1]
    return Place.at(web.url, token=str(token), ca=web.paths.rapi_pem)


@pytest.fixture
def client(place: Place) -> Iterator[RapidClient]:
    with RapidClient(place) as client:
        yield client


def command(*argv: str, **parameters: object) -> dict[str, object]:
    return {"OP_ID": "OP_RUN_COMMAND", "argv": list(argv), **parameters}


def test_a_job_is_submitted_waited_for_and_read(client: RapidClient) -> None:
    job_id = client.submit([command("/bin/sh", "-c", "echo a; echo b")])

    assert client.wait(job_id).status is JobState.SUCCESS
    assert "".join(client.output(job_id)) == "a\nb\n"
    job = client.job(job_id)
    assert (job.user, job.archived) == (OWN_LOGIN, False)
    assert job.ops is not None
    assert job.ops[0]["argv"] == ["/bin/sh", "-c", "echo a; echo b"]
    assert client.why(job_id) == ()


def test_the_same_key_is_the_same_job(client: RapidClient) -> None:
    assert client.submit([DELAY], key="build-17") == client.submit([DELAY], key="build-17")
    assert client.submit([DELAY]) != client.submit([DELAY])


def test_jobs_of_one_submission_depend_on_one_another(client: RapidClient) -> None:
    first, second = client.submit_many([[DELAY], [{**DELAY, "depends": [[-1, ["success"]]]}]])

    assert second.id is not None
    assert client.wait(second.id).status is JobState.SUCCESS
    assert first.id is not None
    assert client.job(first.id, fields=("status",)).status is JobState.SUCCESS


def test_a_list_is_fetched_page_by_page(client: RapidClient) -> None:
    ids = [job.id for job in client.submit_many([[DELAY]] * 7)]

    found = list(client.jobs(f"id>={ids[0]} & id<={ids[-1]}", fields=("status",), ascending=True, page=3))

    assert [job.id for job in found] == ids
    assert [job.id for job in client.jobs(["==", "id", ids[0]])] == ids[:1]


def test_a_wait_ends_at_its_time_with_the_job_as_it_is(client: RapidClient) -> None:
    job_id = client.submit([LONG])

    assert client.wait(job_id, timeout_s=0.05).status in (JobState.QUEUED, JobState.WAITING, JobState.RUNNING)
    assert client.wait(job_id, until=("running",)).status is JobState.RUNNING
    assert "canceled" in client.cancel(job_id, kill=True).message or client.wait(job_id).status is JobState.CANCELED


def test_output_is_followed_to_its_end(client: RapidClient, tmp_path: Path) -> None:
    go_on = tmp_path / "go-on"
    script = f"echo begun; until [ -e {go_on} ]; do sleep 0.05; done; echo över"
    pieces = client.output(client.submit([command("/bin/sh", "-c", script)]), follow=True)

    assert next(pieces) == "begun\n"
    go_on.touch()
    assert "".join(pieces) == "över\n"


def test_many_jobs_are_canceled_after_a_dry_run(client: RapidClient) -> None:
    first, second = (client.submit([LONG]) for _ in range(2))
    dry = client.cancel_many(CancelMany(filter=f"id>={first}", kill=True, dry_run=True))

    done = client.cancel_many(CancelMany(filter=f"id>={first}", kill=True, ticket=dry.ticket))

    assert dry.ids == (first, second)
    assert [each.done for each in done.results] == [True, True]
    assert client.wait(second).status is JobState.CANCELED


def test_a_rule_is_tried_set_and_deleted(client: RapidClient) -> None:
    wish = FilterWish(Action(ActionKind.PAUSE), where="reason=~nothing-is-like-that", reason="because")

    assert client.try_filter(wish).count == 0
    rule = client.add_filter(wish)
    assert [each.uuid for each in client.filters()] == [rule.uuid]
    assert client.replace_filter(rule.uuid, FilterWish(Action(ActionKind.ACCEPT))).uuid == rule.uuid
    with pytest.raises(RemoteError) as refused:
        client.replace_filter(rule.uuid, FilterWish(Action(ActionKind.REJECT)), rule.tag)
    assert refused.value.code == "precondition_failed"
    (present,) = client.filters()
    assert present.action.kind is ActionKind.ACCEPT
    client.delete_filter(rule.uuid, present.tag)
    assert client.filters() == ()


def test_the_queue_the_locks_and_the_caller_are_told(client: RapidClient) -> None:
    assert client.queue().drained is False
    # jobs of other tests may be ending yet
    wait_until(lambda: client.locks() == (), what="nobody holds a lock", state=client.locks)
    me = client.me()
    assert (me.name, me.unix_user, me.role, me.owner) == ("ci", OWN_LOGIN, "operate", OWN_LOGIN)


def test_a_refusal_is_an_error_with_its_code(client: RapidClient) -> None:
    job_id = client.submit([DELAY])
    client.wait(job_id)

    codes = []
    for call in (lambda: client.job(999), lambda: client.cancel(job_id), lambda: list(client.jobs("("))):
        with pytest.raises(RemoteError) as caught:
            call()
        codes.append(caught.value.code)

    assert codes == ["not_found", "conflict", "invalid"]


def test_a_server_that_never_was_there_is_given_up_soon(place: Place) -> None:
    with (
        RapidClient(f"https://{HOST}:{free_port()}", patience_s=0.3) as client,
        pytest.raises(Unavailable, match="connection refused"),
    ):
        client.queue()


def test_calls_go_on_over_a_restart_of_the_server(web: Web, client: RapidClient) -> None:
    job_id = client.submit([LONG])
    web.cluster.restart("rapid")

    assert client.job(job_id, fields=("status",)).status is not None
    web.cluster.restart("rapid")
    assert client.submit([DELAY]) == job_id + 1
    client.cancel(job_id, kill=True)


@pytest.mark.trio
async def test_a_trio_program_does_the_same(place: Place) -> None:
    async with TrioRapidClient(place) as client:
        job_id = await client.submit([command("/bin/sh", "-c", "echo a; exit 3")])

        assert (await client.wait(job_id)).status is JobState.ERROR
        assert [piece async for piece in client.output(job_id, follow=True)] == ["a\n"]
        assert [job.id async for job in client.jobs(f"id={job_id}")] == [job_id]
        assert (await client.submit_many([[DELAY]], key="k"))[0].id == job_id + 1
        with pytest.raises(RemoteError):
            await client.cancel(job_id)
        assert (await client.me()).owner == OWN_LOGIN
        assert await client.filters() == ()


@pytest.mark.trio
async def test_a_trio_program_pins_the_certificate(web: Web, place: Place) -> None:
    wrong = Place.at(web.url, fingerprint="0" * 64)
    async with TrioRapidClient(wrong) as client:
        with pytest.raises(Unavailable, match="not the one that was pinned"):
            await client.me()
    async with TrioRapidClient(web.url, fingerprint=fingerprint_of(web.paths.rapi_pem.read_bytes())) as client:
        assert (await client.me()).name == ""


@pytest.mark.timeout(300)
def test_events_go_on_over_a_restart_of_the_server(web: Web, client: RapidClient) -> None:
    events = client.events([Topic.JOBS])
    assert not _begin(events).resumed
    job_id = client.submit([LONG])

    _until(client, events, job_id, JobState.RUNNING)
    web.cluster.restart("rapid")
    client.cancel(job_id, kill=True)

    _until(client, events, job_id, JobState.CANCELED)


def _begin(events: Iterator[News]) -> Begin:
    value = next(events).value
    assert isinstance(value, Begin)
    return value


def _until(client: RapidClient, events: Iterator[News], job_id: int, state: JobState) -> None:
    for news in events:
        match news.value:
            case JobsChanged(jobs=jobs) if (job_id, state) in [(job.id, job.status) for job in jobs]:
                return
            # what happened meanwhile is not told any more
            case Begin(resumed=False) if client.job(job_id).status is state:
                return
            case _:
                pass


@pytest.mark.timeout(300)
def test_a_stream_goes_on_after_the_last_event_that_was_seen(client: RapidClient) -> None:
    last_id = next(client.events([Topic.JOBS])).id
    job_id = client.submit([DELAY])
    client.wait(job_id)

    events = client.events([Topic.JOBS], last_id=last_id)

    assert _begin(events).resumed
    _until(client, events, job_id, JobState.SUCCESS)


@pytest.mark.timeout(300)
def test_jobs_are_followed_with_their_output(client: RapidClient) -> None:
    job_id = client.submit([command("echo", "a")])
    wish = FollowWish((job_id,), outputs=(OutputPlace(job_id, OutputStream.OUTPUT, 0),))

    events = client.stream(follow_jobs(wish), EventParser())

    assert next(events).name == "begin"
    text, is_end = "", False
    while not is_end:
        for piece in _changes(next(events)).outputs:
            text, is_end = text + piece.text, piece.is_end
    assert text == "a\n"


def _changes(event: Event) -> FeedChanges:
    told = read_changes(event.name, orjson.loads(event.data))
    assert told is not None
    return told[1]


def test_a_job_that_is_not_there_is_not_followed(client: RapidClient) -> None:
    wish = FollowWish((JobId(999),), outputs=(OutputPlace(JobId(999), OutputStream.OUTPUT, 0),))

    with pytest.raises(RemoteError) as caught:
        next(client.stream(follow_jobs(wish), EventParser()))

    assert caught.value.wire_name == JobLost.wire_name


@pytest.mark.trio
async def test_a_trio_program_hears_of_its_job(place: Place) -> None:
    async with TrioRapidClient(place) as client:
        job_id = await client.submit([LONG])
        async with client.events([Topic.JOBS], ids=[job_id]) as events:
            async for news in events:
                if isinstance(news.value, JobsChanged) and news.value.jobs[0].status is JobState.RUNNING:
                    break
        await client.cancel(job_id, kill=True)
