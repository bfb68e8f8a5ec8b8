"""The gate of rapid, with real files and virtual time. Source: rapi.md section 2; issue 12, deliverable 1."""

import base64
import errno
import logging
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio
import trio.testing
from starlette.requests import Request as HttpRequest

from common.access import Role
from common.paths import Paths
from common.system.stamps import Stamp, inode_stamp_at
from common.webaccess import passwords
from common.webaccess.passwords import Password, Scrypt, ScryptCost, matches
from common.webaccess.rights import NOBODY, Principal, Right, Rights
from common.webaccess.tokens import NewToken, Token, TokensFile, TokenText
from common.webaccess.users import UsersFile
from daemons.rapid.access import authenticator, passwordchecks
from daemons.rapid.access.authenticator import AccessRules, Authenticator
from daemons.rapid.access.passwordchecks import FREE, LONGEST_WAIT_S, MOST_WAITING, THREADS
from daemons.rapid.calls import Asked, Call
from daemons.rapid.refusals import RequestRefused

pytestmark = pytest.mark.trio

JACK = Principal("jack", Rights(Role.READ))


class Checks:
    """Counts the checks of passwords."""

    def __init__(self) -> None:
        self.count = 0

    def is_right(self, stored: Password | None, name: str, given: str) -> bool:
        self.count += 1
        return stored is not None and matches(stored, name, given)


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> Checks:
    counted = Checks()
    monkeypatch.setattr(passwordchecks, "is_right", counted.is_right)
    return counted


@pytest.fixture(autouse=True)
def _cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """A check against nothing costs little here."""
    monkeypatch.setattr(passwords, "_NOTHING", Scrypt(ScryptCost(4, 8, 1), bytes(16), bytes(32)))


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    paths = Paths.under_root(tmp_path)
    paths.rapi.mkdir(parents=True)
    paths.rapi_users.write_text("jack abc123 read\njill xyz write,unix=jill\n")
    return paths


@pytest.fixture
def gate(paths: Paths) -> Authenticator:
    return Authenticator(paths, AccessRules())


def request(header: str | None, host: str = "192.0.2.1") -> HttpRequest:
    headers = [] if header is None else [(b"authorization", header.encode())]
    return HttpRequest({"type": "http", "headers": headers, "client": (host, 4711)})


def basic(name: str, password: str) -> str:
    return f"Basic {base64.b64encode(f'{name}:{password}'.encode()).decode()}"


async def refused(gate: Authenticator, header: str, host: str = "192.0.2.1") -> tuple[int, str]:
    """The status and the code of the refusal."""
    with pytest.raises(RequestRefused) as raised:
        await gate.identify(request(header, host))
    return raised.value.status, raised.value.code


async def is_known(gate: Authenticator, name: str, password: str) -> bool:
    return await gate.check_password(name, password, "192.0.2.1") is not None


def told(caplog: pytest.LogCaptureFixture) -> str:
    """The lines of the log, whole."""
    return "\n".join(str(vars(record)) for record in caplog.records)


def replace(path: Path, text: str) -> None:
    """Replace a file as an editor does."""
    new = path.with_name("new")
    new.write_text(text)
    new.rename(path)


async def test_a_password_names_its_user_with_his_rights(gate: Authenticator) -> None:
    jill = await gate.identify(request(basic("jill", "xyz")))

    assert (jill.name, jill.rights, jill.unix_user) == ("jill", Rights(Role.OPERATE), "jill")
    assert await gate.identify(request(basic("jack", "abc123"))) != jill
    assert await gate.identify(request(None)) == NOBODY


async def test_a_wrong_password_and_an_unknown_user_are_refused_alike(gate: Authenticator) -> None:
    texts = set()
    for name in ("jack", "nobody"):
        with pytest.raises(RequestRefused) as raised:
            await gate.identify(request(basic(name, "xyz")))
        texts.add((raised.value.status, raised.value.code, raised.value.message))

    assert texts == {(401, "wrong_password", "there is no such user, or the password is wrong")}


async def test_a_missing_right_is_403_and_a_missing_name_401(gate: Authenticator) -> None:
    async def cancel(_: Asked) -> object:
        return None

    call = Call("DELETE", "/3/jobs/{id:int}", cancel, "", rights=(Right.JOBS_CANCEL,))

    with pytest.raises(RequestRefused, match=r"'jack' lacks the right 'jobs\.cancel'") as forbidden:
        gate.role_for(call, JACK)
    with pytest.raises(RequestRefused) as unnamed:
        gate.role_for(call, NOBODY)

    assert (forbidden.value.status, forbidden.value.code) == (403, "denied")
    assert (unnamed.value.status, unnamed.value.code) == (401, "unauthenticated")


async def test_basic_without_credentials_is_400_and_another_scheme_401(gate: Authenticator) -> None:
    assert await refused(gate, "Basic") == (400, "invalid")
    assert await refused(gate, "Digest x") == (401, "unauthenticated")


# tokens


class Tokens:
    """A token, and what becomes of it; the time is virtual."""

    def __init__(self, paths: Paths) -> None:
        self.file = TokensFile(paths)
        self.token, self.text = self.make("ci", 3600.0)
        self.gate = Authenticator(paths, AccessRules(), clock=trio.current_time)

    def make(self, name: str, lasts_s: float | None) -> tuple[Token, TokenText]:
        return self.file.create(NewToken(name, ("jobs.read",), lasts_s, "web"), trio.current_time())

    async def caller(self) -> Principal:
        return await self.gate.identify(request(f"Bearer {self.text}"))


async def test_a_token_names_its_purpose_with_its_rights(paths: Paths) -> None:
    tokens = Tokens(paths)

    caller = await tokens.caller()

    assert (caller.name, caller.unix_user, caller.token_id) == ("ci", "web", tokens.token.id)
    assert caller.rights == Rights(single=frozenset({Right.JOBS_READ}))


async def test_a_token_expires_by_the_clock(paths: Paths, autojump_clock: trio.testing.MockClock) -> None:
    tokens = Tokens(paths)
    await trio.sleep(3599.0)
    await tokens.caller()

    await trio.sleep(1.0)

    assert await refused(tokens.gate, f"Bearer {tokens.text}") == (401, "token_expired")


async def test_a_token_is_refused_from_the_next_request_after_it_is_revoked(paths: Paths) -> None:
    tokens = Tokens(paths)
    await tokens.caller()

    tokens.file.revoke(tokens.token.id, trio.current_time())

    assert await refused(tokens.gate, f"Bearer {tokens.text}") == (401, "token_revoked")


async def test_a_program_that_goes_on_with_a_bad_token_is_told_of_once(
    paths: Paths, caplog: pytest.LogCaptureFixture
) -> None:
    tokens = Tokens(paths)
    tokens.file.revoke(tokens.token.id, trio.current_time())

    for _ in range(5):
        await refused(tokens.gate, f"Bearer {tokens.text}")
        await refused(tokens.gate, "Bearer gnt_00000000_" + "0" * 64)

    assert [record.getMessage() for record in caplog.records].count("access.bad_token") == 1
    assert tokens.token.id in told(caplog)
    assert tokens.text.secret not in told(caplog)


async def test_only_who_has_the_secret_learns_about_a_token(paths: Paths) -> None:
    tokens = Tokens(paths)
    tokens.file.revoke(tokens.token.id, trio.current_time())

    for text in ("gnt_00000000_" + "0" * 64, f"gnt_{tokens.token.id}_" + "0" * 64, "x", ""):
        assert await refused(tokens.gate, f"Bearer {text}") == (401, "token_unknown")


async def ends(wait: Callable[[], Awaitable[None]], change: Callable[[], None]) -> None:
    """Make a change while something waits; return when that ends."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        change()


async def test_what_a_token_opened_ends_when_it_is_revoked(paths: Paths, nursery: trio.Nursery) -> None:
    tokens = Tokens(paths)
    await nursery.start(tokens.gate.follow)
    caller = await tokens.caller()

    await ends(
        lambda: tokens.gate.wait_until_over(caller),
        lambda: tokens.file.revoke(tokens.token.id, trio.current_time()),
    )

    assert tokens.gate.current(caller) is None


async def test_what_a_token_opened_ends_when_it_expires(paths: Paths, autojump_clock: trio.testing.MockClock) -> None:
    tokens = Tokens(paths)
    caller = await tokens.caller()

    await tokens.gate.wait_until_over(caller)

    assert trio.current_time() == pytest.approx(tokens.token.expires_at)


async def test_what_a_user_opened_ends_with_his_password_and_not_with_anothers(
    paths: Paths, gate: Authenticator, nursery: trio.Nursery
) -> None:
    await nursery.start(gate.follow)
    jack = await gate.identify(request(basic("jack", "abc123")))
    users = UsersFile(paths)
    over = trio.Event()

    async def wait() -> None:
        await gate.wait_until_over(jack)
        over.set()

    nursery.start_soon(wait)
    await trio.testing.wait_all_tasks_blocked()
    users.set_password("jill", "new")
    assert gate.current(jack) == jack
    await trio.testing.wait_all_tasks_blocked()
    assert not over.is_set()

    users.set_password("jack", "new")
    await over.wait()

    assert gate.current(jack) is None
    nursery.cancel_scope.cancel()


async def test_a_user_whose_rights_changed_has_the_new_ones(paths: Paths, gate: Authenticator) -> None:
    jack = await gate.identify(request(basic("jack", "abc123")))

    replace(paths.rapi_users, "jack abc123 admin\n")

    now = gate.current(jack)
    assert now is not None
    assert now.rights == Rights(Role.ADMIN)


# the files


async def test_a_file_that_cannot_be_parsed_changes_nothing(
    paths: Paths, gate: Authenticator, caplog: pytest.LogCaptureFixture
) -> None:
    paths.rapi_users.write_bytes(b"jack \xff\xfe read\n")

    assert await is_known(gate, "jack", "abc123")
    assert await is_known(gate, "jill", "xyz")
    assert "is not text in UTF-8, at byte 5" in told(caplog)


async def test_a_file_that_cannot_be_read_takes_all_users_away(
    paths: Paths, gate: Authenticator, caplog: pytest.LogCaptureFixture
) -> None:
    paths.rapi_users.unlink()
    paths.rapi_users.mkdir()

    assert not await is_known(gate, "jack", "abc123")
    assert "nobody named in it can call" in told(caplog)

    paths.rapi_users.rmdir()
    paths.rapi_users.write_text("jack abc123\n")
    assert await is_known(gate, "jack", "abc123")


async def test_a_missing_file_has_no_users(paths: Paths, gate: Authenticator) -> None:
    paths.rapi_users.unlink()

    assert not await is_known(gate, "jack", "abc123")


async def test_a_shortage_of_descriptors_says_nothing_about_users(
    paths: Paths, gate: Authenticator, monkeypatch: pytest.MonkeyPatch
) -> None:
    # so that the times of the file tell nothing more
    monkeypatch.setattr(authenticator, "is_settled", lambda _: True)
    replace(paths.rapi_users, "jack abc123\njim new\n")

    def fail(_: Path) -> bytes:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with monkeypatch.context() as patched:
        patched.setattr(authenticator, "read_bounded", fail)
        assert await is_known(gate, "jill", "xyz")
        assert not await is_known(gate, "jim", "new")

    assert await is_known(gate, "jim", "new")
    assert not await is_known(gate, "jill", "xyz")


async def test_a_change_of_the_same_size_within_a_tick_is_seen(
    paths: Paths, gate: Authenticator, monkeypatch: pytest.MonkeyPatch
) -> None:
    tick_ns = 20_000_000

    def coarse(path: Path) -> Stamp:
        device, inode, changed_ns, size = inode_stamp_at(path)
        return device, inode, changed_ns // tick_ns * tick_ns, size

    monkeypatch.setattr(authenticator, "inode_stamp_at", coarse)
    for number in range(50):
        paths.rapi_users.write_text(f"jack abc{number:03}\n")
        assert await is_known(gate, "jack", f"abc{number:03}")


async def test_what_is_wrong_with_lines_is_told_once(
    paths: Paths, gate: Authenticator, caplog: pytest.LogCaptureFixture
) -> None:
    replace(paths.rapi_users, "lonely\njack {CRYPT}abc123 read\n")

    for _ in range(3):
        assert not await is_known(gate, "jack", "abc123")

    events = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert sum("access.line_skipped" in event for event in events) == 1
    assert sum("access.unknown_password" in event for event in events) == 1


async def test_a_folder_that_comes_back_is_followed_again(
    paths: Paths, gate: Authenticator, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    await nursery.start(gate.follow)
    jack = await gate.identify(request(basic("jack", "abc123")))
    await trio.testing.wait_all_tasks_blocked()

    paths.rapi.rename(paths.data / "elsewhere")
    await ends(lambda: gate.wait_until_over(jack), lambda: None)

    assert gate.current(jack) is None
    nursery.cancel_scope.cancel()


# the cost of checks


async def test_what_was_right_is_remembered_until_it_is_changed(
    paths: Paths, gate: Authenticator, checks: Checks
) -> None:
    for _ in range(5):
        assert await is_known(gate, "jack", "abc123")
    assert checks.count == 1

    UsersFile(paths).set_password("jack", "new")

    assert not await is_known(gate, "jack", "abc123")
    assert await is_known(gate, "jack", "new")
    assert checks.count == 3


async def test_what_was_wrong_is_checked_each_time(gate: Authenticator, checks: Checks) -> None:
    for _ in range(3):
        assert not await is_known(gate, "jack", "wrong")

    assert checks.count == 3


async def test_many_requests_with_one_password_cost_few_checks(gate: Authenticator, checks: Checks) -> None:
    known = []

    async def ask() -> None:
        known.append(await is_known(gate, "jack", "abc123"))

    async with trio.open_nursery() as nursery:
        for _ in range(MOST_WAITING):
            nursery.start_soon(ask)

    assert known == [True] * MOST_WAITING
    assert checks.count <= THREADS


async def test_a_flood_of_wrong_passwords_is_bounded_and_holds_up_nobody_who_is_known(
    gate: Authenticator, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await is_known(gate, "jack", "abc123")
    may_go_on = trio.Event()
    found: list[int] = []

    async def hold(*_: object) -> bool:
        await may_go_on.wait()
        return False

    async def guess(number: int) -> None:
        status, _ = await refused(gate, basic("jack", f"wrong{number}"), f"198.51.{number // 256}.{number % 256}")
        found.append(status)

    monkeypatch.setattr(passwordchecks, "in_thread", hold)
    async with trio.open_nursery() as nursery:
        for number in range(500):
            nursery.start_soon(guess, number)
        await trio.testing.wait_all_tasks_blocked()

        assert found == [503] * (500 - MOST_WAITING - THREADS)
        assert await is_known(gate, "jack", "abc123")
        may_go_on.set()

    assert found.count(401) == MOST_WAITING + THREADS


class Slow:
    """Checks that each take as long as this virtual clock says."""

    def __init__(self, check_s: float) -> None:
        self.count = 0
        self.check_s = check_s

    async def in_thread(self, _: object, stored: Password | None, name: str, given: str) -> bool:
        self.count += 1
        await trio.sleep(self.check_s)
        return stored is not None and matches(stored, name, given)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Slow:
    checks = Slow(1.0)
    monkeypatch.setattr(passwordchecks, "in_thread", checks.in_thread)
    return checks


async def guesses_at_once(gate: Authenticator, passwords: list[str]) -> list[tuple[int, float]]:
    """Statuses of wrong passwords of jack from one address, with the time that each took."""
    found, began = [], trio.current_time()

    async def guess(password: str) -> None:
        status, _ = await refused(gate, basic("jack", password))
        found.append((status, trio.current_time() - began))

    async with trio.open_nursery() as nursery:
        for password in passwords:
            nursery.start_soon(guess, password)
    return found


async def test_of_sixty_wrong_passwords_at_once_few_are_checked_and_the_others_sent_away_at_once(
    gate: Authenticator, slow: Slow, autojump_clock: trio.testing.MockClock
) -> None:
    found = await guesses_at_once(gate, [f"wrong{number}" for number in range(60)])

    assert 0 < [status for status, _ in found].count(401) == slow.count <= FREE + 5
    assert {(status, at) for status, at in found if status != 401} == {(429, 0.0)}


async def test_the_same_wrong_password_many_times_at_once_has_no_more_answers(
    gate: Authenticator, slow: Slow, autojump_clock: trio.testing.MockClock
) -> None:
    found = await guesses_at_once(gate, ["wrong"] * 60)

    assert 0 < [status for status, _ in found].count(401) == slow.count <= FREE + 5
    # they waited for the one check of that password
    assert {(status, at) for status, at in found if status != 401} == {(429, slow.check_s)}


@pytest.mark.parametrize("host", ["192.0.2.1", "192.0.2.2"], ids=["same address", "another address"])
async def test_a_first_login_waits_for_few_checks_of_others(
    gate: Authenticator, slow: Slow, autojump_clock: trio.testing.MockClock, host: str
) -> None:
    waited = []

    async def log_in() -> None:
        await trio.sleep(0.1)
        began = trio.current_time()
        await gate.identify(request(basic("jill", "xyz"), host))
        waited.append(trio.current_time() - began)

    async with trio.open_nursery() as nursery:
        for number in range(60):
            nursery.start_soon(refused, gate, basic("jack", f"wrong{number}"))
        nursery.start_soon(log_in)

    # those that are being checked, perhaps one more, and its own
    assert waited[0] <= 3 * slow.check_s


async def test_who_waits_for_a_check_makes_room_for_an_address_where_fewer_wait(
    gate: Authenticator, slow: Slow, autojump_clock: trio.testing.MockClock
) -> None:
    statuses = []

    async def guess(number: int) -> None:
        # as many as an address has free, from as few addresses as fill the line
        status, _ = await refused(gate, basic(f"user{number % 20}", "wrong"), f"198.51.100.{number // 20}")
        statuses.append(status)

    async with trio.open_nursery() as nursery:
        for number in range(MOST_WAITING + THREADS):
            nursery.start_soon(guess, number)
        await trio.sleep(0.1)
        began = trio.current_time()

        assert (await gate.identify(request(basic("jill", "xyz")))).name == "jill"
        assert trio.current_time() - began <= 5 * slow.check_s

    assert statuses.count(503) == 1


async def test_a_caller_who_goes_while_he_waits_leaves_his_place_to_others(
    gate: Authenticator, slow: Slow, autojump_clock: trio.testing.MockClock
) -> None:
    async with trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(refused, gate, basic(f"user{number}", "wrong"))
        await trio.sleep(1.5)
        nursery.cancel_scope.cancel()
    began = trio.current_time()

    for _ in range(FREE):
        assert await refused(gate, basic("jack", "wrong")) == (401, "wrong_password")

    assert trio.current_time() - began == pytest.approx(FREE * slow.check_s)


async def test_wrong_passwords_slow_down_their_address_and_a_right_one_gets_its_turn(
    gate: Authenticator, checks: Checks, autojump_clock: trio.testing.MockClock
) -> None:
    for _ in range(FREE + 30):
        await refused(gate, basic("jack", "wrong"))
    assert trio.current_time() > 60.0
    began = trio.current_time()

    jack = await gate.identify(request(basic("jack", "abc123")))

    assert trio.current_time() - began <= LONGEST_WAIT_S
    later = trio.current_time()
    assert await gate.identify(request(basic("jack", "abc123"))) == jack
    await refused(gate, basic("jack", "wrong"), "192.0.2.2")
    assert trio.current_time() == later


async def test_attempts_at_once_beyond_the_bound_are_sent_away_at_once(
    gate: Authenticator, checks: Checks, autojump_clock: trio.testing.MockClock
) -> None:
    for _ in range(FREE + 5):
        await refused(gate, basic("jack", "wrong"))
    began, found = trio.current_time(), []

    async def guess() -> None:
        status, code = await refused(gate, basic("jack", "wrong"))
        found.append((status, code, trio.current_time() - began))

    async with trio.open_nursery() as nursery:
        for _ in range(100):
            nursery.start_soon(guess)

    sent_away = [after for status, code, after in found if (status, code) == (429, "too_many_attempts")]
    assert len(sent_away) > 90
    assert max(sent_away) == 0.0


async def test_logs_have_no_passwords_and_an_attack_does_not_fill_them(
    gate: Authenticator, checks: Checks, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    for _ in range(FREE + 30):
        await refused(gate, basic("jack", "s3cr3t"))

    assert "s3cr3t" not in told(caplog)
    assert 0 < len(caplog.records) <= FREE + 2
