"""Changes under a condition: of callers that edit the same thing, none overwrites another unseen (RFC 9110, 13)."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import attrs
import httpx2
import pytest

from common.webaccess.tokens import NewToken, TokensFile
from tests.support.accounts.users import OWN_LOGIN
from tests.support.wait import PATIENCE_S
from tests.support.web.jsonschemas import Document
from tests.support.web.rapid import Web

Json = Any
TRUE = {"OP_ID": "OP_RUN_COMMAND", "argv": ["true"]}


@attrs.frozen
class Kind:
    """One kind of things that are edited."""

    name: str
    # a path that names none yet
    new_path: Callable[[], str]
    # a whole thing, of a number
    whole: Callable[[int], Json]
    # what of a reply is made of the number
    number: Callable[[Json], int]
    # a merge patch
    patch: Callable[[int], Json]


def own_client(web: Web) -> httpx2.Client:
    """A client over the Unix socket for one thread."""
    transport = httpx2.HTTPTransport(uds=str(web.paths.rapid_socket))
    return httpx2.Client(transport=transport, base_url="http://rapid", timeout=PATIENCE_S)


def word() -> str:
    return f"k{uuid4().hex[:8]}"


SCHEDULES = Kind(
    "schedule",
    lambda: f"/3/schedules/{word()}",
    lambda number: {"every_s": 1000.0 + number, "job": [TRUE], "overlap": "queue"},
    lambda value: int(value["schedule"]["every_s"]) - 1000,
    lambda number: {"every_s": 1000.0 + number},
)
FILTERS = Kind(
    "filter",
    lambda: f"/3/filters/{uuid4()}",
    lambda number: {"action": "ACCEPT", "priority": number, "where": "id = 1", "reason": "a test"},
    lambda value: int(value["priority"]),
    lambda number: {"priority": number},
)
RESOURCES = Kind(
    "resource",
    lambda: f"/3/resources/{word()}",
    lambda number: {"total": number, "unit": "bytes"},
    lambda value: int(value["resource"]["total"]),
    lambda number: {"total": number},
)


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    with Web(tmp_path_factory.mktemp("conditions")) as web:
        web.start()
        document = Document(web.local.get("/3/openapi.json").json())

        def check(reply: httpx2.Response) -> None:
            reply.read()
            document.check(reply)

        web.local.event_hooks["response"].append(check)
        yield web


@pytest.fixture(params=[SCHEDULES, FILTERS, RESOURCES], ids=lambda kind: kind.name)
def kind(request: pytest.FixtureRequest) -> Kind:
    found: Kind = request.param
    return found


@pytest.fixture
def path(web: Web, kind: Kind) -> Iterator[str]:
    """The path of a thing of number 1."""
    path = kind.new_path()
    assert web.local.put(path, json=kind.whole(1)).status_code == 200
    yield path
    web.local.delete(path)


def tag(web: Web, path: str) -> str:
    reply = web.local.get(path)
    assert reply.status_code == 200, reply.text
    return str(reply.headers["etag"])


def refused(reply: httpx2.Response, current: str | None) -> None:
    """The reply says that nothing was done, and what the tag is now."""
    assert reply.status_code == 412, reply.text
    problem = reply.json()
    assert (problem["code"], problem["current_tag"]) == ("precondition_failed", current)
    assert reply.headers.get("etag") == (None if current is None else f'"{current}"')


def test_replies_have_a_strong_tag_that_the_body_has_too(web: Web, kind: Kind, path: str) -> None:
    shown = web.local.get(path)

    assert shown.headers["etag"] == f'"{shown.json()["tag"]}"'
    assert tag(web, path) == shown.headers["etag"]
    changed = web.local.put(path, json=kind.whole(2))
    assert changed.headers["etag"] == tag(web, path) != shown.headers["etag"]
    (several,) = web.local.get(path.rpartition("/")[0]).json().values()
    assert changed.json()["tag"] in [each["tag"] for each in several]


def test_an_old_tag_changes_and_removes_nothing(web: Web, kind: Kind, path: str) -> None:
    old = {"If-Match": tag(web, path)}
    changed = web.local.put(path, json=kind.whole(2), headers=old)
    assert changed.status_code == 200, changed.text
    current = changed.json()["tag"]

    refused(web.local.put(path, json=kind.whole(3), headers=old), current)
    refused(web.local.patch(path, json=kind.patch(3), headers=old), current)
    refused(web.local.delete(path, headers=old), current)

    assert kind.number(web.local.get(path).json()) == 2
    assert web.local.patch(path, json=kind.patch(4), headers={"If-Match": f'"{current}"'}).status_code == 200
    assert web.local.delete(path, headers={"If-Match": f'"x", {tag(web, path)}'}).status_code == 204
    assert web.local.delete(path, headers=old).status_code == 404


@pytest.mark.parametrize("verb", ["PUT", "PATCH"])
def test_of_two_that_read_the_same_one_wins(web: Web, kind: Kind, path: str, verb: str) -> None:
    both_are_ready = threading.Barrier(2)

    def edit(number: int, seen: str) -> httpx2.Response:
        with own_client(web) as client:
            both_are_ready.wait()
            body = kind.whole(number) if verb == "PUT" else kind.patch(number)
            return client.request(verb, path, json=body, headers={"If-Match": seen})

    with ThreadPoolExecutor(2) as pool:
        for round_number in range(10):
            numbers = [10 + 2 * round_number, 11 + 2 * round_number]
            seen = tag(web, path)
            replies = list(pool.map(edit, numbers, [seen, seen]))

            assert sorted(reply.status_code for reply in replies) == [200, 412], [reply.text for reply in replies]
            (winner,) = (number for number, reply in zip(numbers, replies, strict=True) if reply.status_code == 200)
            assert kind.number(web.local.get(path).json()) == winner


def test_patches_at_once_without_a_condition_are_all_made(web: Web) -> None:
    path = RESOURCES.new_path()
    web.local.put(path, json={"total": 1, "unit": "count"})
    all_are_ready = threading.Barrier(2)

    def edit(body: Json) -> int:
        with own_client(web) as client:
            all_are_ready.wait()
            return client.patch(path, json=body).status_code

    with ThreadPoolExecutor(2) as pool:
        for total in range(2, 10):
            unit = "bytes" if total % 2 else "count"
            assert list(pool.map(edit, [{"total": total}, {"unit": unit}])) == [200, 200]
            resource = web.local.get(path).json()["resource"]
            assert (resource["total"], resource["unit"]) == (total, unit)


def test_one_of_two_that_add_the_same_name_wins(web: Web, kind: Kind) -> None:
    both_are_ready = threading.Barrier(2)

    def add(path: str) -> int:
        with own_client(web) as client:
            both_are_ready.wait()
            return client.put(path, json=kind.whole(1), headers={"If-None-Match": "*"}).status_code

    with ThreadPoolExecutor(2) as pool:
        for _ in range(5):
            path = kind.new_path()
            assert sorted(pool.map(add, [path, path])) == [200, 412]
            assert web.local.delete(path).status_code == 204


def test_a_star_asks_whether_it_is_there(web: Web, kind: Kind, path: str) -> None:
    new, current = kind.new_path(), tag(web, path).strip('"')

    refused(web.local.put(new, json=kind.whole(1), headers={"If-Match": "*"}), None)
    assert web.local.get(new).status_code == 404
    refused(web.local.put(path, json=kind.whole(1), headers={"If-None-Match": "*"}), current)
    refused(web.local.put(path, json=kind.whole(2), headers={"If-Match": "*", "If-None-Match": "*"}), current)
    refused(web.local.put(path, json=kind.whole(2), headers={"If-None-Match": f'W/"{current}"'}), current)
    assert web.local.put(path, json=kind.whole(2), headers={"If-Match": "*"}).status_code == 200


def test_weak_tags_match_nothing_and_malformed_ones_are_refused(web: Web, kind: Kind, path: str) -> None:
    current = tag(web, path)

    refused(web.local.put(path, json=kind.whole(2), headers={"If-Match": f"W/{current}"}), current.strip('"'))
    refused(web.local.delete(path, headers={"If-Match": f"W/{current}"}), current.strip('"'))
    for wrong in ("", "abc", '"abc', '*, "abc"', f"{current} {current}", f"w/{current}"):
        for name in ("If-Match", "If-None-Match"):
            for reply in (
                web.local.put(path, json=kind.whole(2), headers={name: wrong}),
                web.local.patch(path, json=kind.patch(2), headers={name: wrong}),
                web.local.delete(path, headers={name: wrong}),
            ):
                assert reply.status_code == 400, (name, wrong, reply.text)
                assert name in reply.json()["detail"]
    assert tag(web, path) == current


def test_a_repeated_change_finds_what_it_wants(web: Web) -> None:
    for kind in (SCHEDULES, RESOURCES):
        path = kind.new_path()
        web.local.put(path, json=kind.whole(1))
        old = {"If-Match": tag(web, path)}
        replies = [web.local.put(path, json=kind.whole(2), headers=old) for _ in range(2)]
        assert [reply.status_code for reply in replies] == [200, 200]
        assert len({reply.headers["etag"] for reply in replies}) == 1


def test_patch_of_what_is_not_there_is_404(web: Web, kind: Kind) -> None:
    for headers in ({}, {"If-Match": "*"}, {"If-Match": '"x"'}):
        reply = web.local.patch(kind.new_path(), json=kind.patch(1), headers=headers)
        assert (reply.status_code, reply.json()["code"]) == (404, "not_found")


def test_patch_takes_merge_patches_and_names_its_types(web: Web, kind: Kind, path: str) -> None:
    def patch(kind_of_body: str, content: bytes) -> httpx2.Response:
        return web.local.patch(path, content=content, headers={"Content-Type": kind_of_body})

    assert patch("application/merge-patch+json", b"{}").status_code == 200
    assert patch("application/json; charset=utf-8", b"{}").status_code == 200
    other = patch("application/json-patch+json", b"[]")
    assert (other.status_code, other.headers["accept-patch"]) == (
        415,
        "application/json, application/merge-patch+json",
    )
    for wrong in (b"[]", b"1", b"null", b'"x"', b"{", b'{"frob": 1}', b'{"frob": null}'):
        assert patch("application/merge-patch+json", wrong).status_code == 400, wrong


def test_an_empty_patch_changes_nothing_of_what_a_user_sets(web: Web, kind: Kind, path: str) -> None:
    before = web.local.get(path).json()

    after = web.local.patch(path, json={}).json()

    ignored = {"changed_at", "reason_trail", "tag", "watermark"}

    def plain(value: Json) -> Json:
        inner = value.get("schedule", value)
        return {name: member for name, member in inner.items() if name not in ignored}

    assert plain(after) == plain(before)


def test_put_replaces_a_schedule_whole_and_patch_merges(web: Web) -> None:
    path = SCHEDULES.new_path()
    full = {"cron": "0 2 * * *", "zone": "Europe/Athens", "job": [TRUE], "overlap": "queue", "spread_s": 5.0}
    first = web.local.put(path, json=full).json()["schedule"]
    web.local.post(f"{path}/pause")

    merged = web.local.patch(path, json={"zone": None, "overlap": None, "deadline_s": 60.0}).json()["schedule"]
    assert (merged["zone"], merged["overlap"], merged["deadline_s"], merged["spread_s"]) == ("", "skip", 60.0, 5.0)
    assert (merged["cron"], merged["job"]) == (full["cron"], full["job"])
    timed = web.local.patch(path, json={"cron": None, "every_s": 600.0}).json()["schedule"]
    assert (timed["cron"], timed["every_s"], timed["is_paused"]) == ("", 600.0, True)

    whole = web.local.put(path, json={"cron": "@daily", "job": [TRUE]}).json()["schedule"]
    assert (whole["every_s"], whole["deadline_s"], whole["spread_s"], whole["overlap"]) == (0.0, 0.0, 0.0, "skip")
    kept = ("uuid", "created_at", "is_paused", "user", "uid")
    assert [whole[name] for name in kept] == [timed[name] for name in kept]
    assert whole["uuid"] == first["uuid"]
    for wrong in ({"job": None}, {"cron": None}, {"cron": "@daily", "every_s": 60.0}, {"name": "x"}):
        assert web.local.patch(path, json=wrong).status_code == 400, wrong
    assert web.local.put(path, json={"cron": "@daily"}).status_code == 400


def test_patch_of_a_rule_keeps_what_it_leaves_out(web: Web) -> None:
    path = FILTERS.new_path()
    first = web.local.put(path, json={**FILTERS.whole(7), "action": ["RATE_LIMIT", 2]}).json()

    def words(rule: Json) -> list[str]:
        return [reason for source, reason, _ in rule["reason_trail"] if source == "gnt:user"]

    action = web.local.patch(path, json={"action": "PAUSE"}).json()
    assert (action["action"], action["priority"], action["predicates"]) == ("PAUSE", 7, first["predicates"])
    assert words(action) == ["a test"]
    other = web.local.patch(path, json={"where": "id = 2", "priority": None, "reason": None}).json()
    assert (other["priority"], len(other["predicates"]), words(other)) == (0, 1, [])
    assert other["predicates"] != first["predicates"]
    assert web.local.patch(path, json={"predicates": None}).json()["predicates"] == []
    for wrong in ({"action": None}, {"action": "FROB"}, {"priority": -1}, {"where": "frob ="}):
        assert web.local.patch(path, json=wrong).status_code == 400, wrong
    web.local.delete(path)


def test_patch_of_a_resource_keeps_what_it_leaves_out(web: Web) -> None:
    path = RESOURCES.new_path()
    web.local.put(path, json={"total": 5, "unit": "bytes"})

    more = web.local.patch(path, json={"total": 6}).json()["resource"]
    assert (more["total"], more["unit"]) == (6, "bytes")
    plain = web.local.patch(path, json={"unit": None}).json()["resource"]
    assert (plain["total"], plain["unit"]) == (6, "count")
    for wrong in ({"total": None}, {"total": -1}, {"total": "6"}, {"unit": "frob"}):
        assert web.local.patch(path, json=wrong).status_code == 400, wrong


def test_the_tag_of_a_long_thing_stays_strong_over_the_network(web: Web) -> None:
    path = SCHEDULES.new_path()
    web.local.put(path, json={"every_s": 60.0, "job": [{**TRUE, "argv": ["echo", "x" * 20_000]}]})

    token = TokensFile(web.paths).create(NewToken("editor", ("admin",), None, OWN_LOGIN), time.time())[1]
    client = web.remote(token=str(token))
    shown = client.get(path, headers={"Accept-Encoding": "gzip"})
    assert shown.headers["etag"] == tag(web, path)
    changed = client.patch(path, json={"every_s": 61.0}, headers={"If-Match": shown.headers["etag"]})

    assert changed.status_code == 200
    web.local.delete(path)


def test_a_tag_is_that_of_before_after_a_restart(web: Web, kind: Kind, path: str) -> None:
    before = tag(web, path)

    for name in ("wconfd", "luxid"):
        web.cluster.restart(name)

    assert tag(web, path) == before
