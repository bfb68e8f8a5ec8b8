"""A trusted program calls in the name of others: what comes of it, and what it cannot do."""

import json
import os
import pwd
import stat
import time
from pathlib import Path

import pytest

from common.access import Access, Role
from common.errors import Denied, InvalidRequest, Unavailable
from common.paths import Paths
from common.queue.reasons import NO_UID
from common.webaccess.tokens import NewToken, TokensFile
from common.webaccess.users import User, UsersFile
from protocol.envelope import Call, Dialect, MalformedRequest, read_message, request_bytes
from protocol.peer import Peer, Speaker, read_speaker
from protocol.serving.service import AccountRoles, Service, Speakers
from tests.support.accounts.userlookups import without_descriptors

OTHER = next(user for user in pwd.getpwall() if user.pw_uid not in (0, os.getuid()))
ROOT_LOGIN = pwd.getpwuid(0).pw_name
RAPID = Peer(77, 4_000_000, 0, role=Role.FULL)
GATEWAY = Peer(78, 4_000_001, 4_000_001, role=Role.SUBMIT)
STRANGER = Peer(79, 4_000_002, 4_000_002, role=Role.ADMIN)
CI = Speaker("ci", Role.SUBMIT, OTHER.pw_name)
SPEAKERS = Speakers(Access(RAPID.uid, {GATEWAY.uid: Role.SUBMIT}, trusted=frozenset({GATEWAY.uid})))


@pytest.mark.parametrize("speaker", [CI, Speaker("", Role.NONE), Speaker("Zoë", Role.ADMIN)])
def test_a_speaker_is_read_as_it_was_written(speaker: Speaker) -> None:
    message = read_message(request_bytes("M", [1], speaker))

    assert message == Call("M", [1], speaker=speaker)


def test_both_dialects_name_the_speaker() -> None:
    call = {"jsonrpc": "2.0", "method": "M", "id": 1, "speaker": CI.wire}

    assert read_message(json.dumps(call).encode()) == Call("M", [], Dialect.JSONRPC, 1, speaker=CI)


def test_a_request_without_speaker_is_written_as_ever() -> None:
    assert request_bytes("M", [1]) == b'{"method":"M","args":[1]}'


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        "ci",
        {},
        {"name": "ci", "role": "submit"},
        {"name": "ci", "role": "boss", "login": None},
        {"name": "ci", "role": "submit", "login": ""},
        {"name": "ci", "role": "submit", "login": None, "uid": 0},
    ],
)
def test_a_malformed_speaker_refuses_the_request(wrong: object) -> None:
    with pytest.raises(InvalidRequest, match="key 'speaker' must be an object"):
        read_speaker(wrong)
    for call in ({"method": "M", "args": []}, {"jsonrpc": "2.0", "method": "M"}):
        with pytest.raises(MalformedRequest, match="key 'speaker'"):
            read_message(json.dumps({**call, "speaker": wrong}).encode())


@pytest.mark.trio
async def test_a_call_is_the_unix_users_with_the_smaller_role() -> None:
    peer = await SPEAKERS.speaking(RAPID, CI)

    assert (peer.pid, peer.uid, peer.gid, peer.role) == (RAPID.pid, OTHER.pw_uid, OTHER.pw_gid, Role.SUBMIT)
    assert (peer.speaker, peer.by) == (CI, RAPID)
    assert (await SPEAKERS.speaking(GATEWAY, Speaker("ops", Role.OPERATE))).role is Role.SUBMIT


@pytest.mark.trio
async def test_nobody_speaks_with_all_rights() -> None:
    assert (await SPEAKERS.speaking(RAPID, Speaker("root", Role.FULL, ROOT_LOGIN))).role is Role.ADMIN
    with pytest.raises(Denied, match="has all rights; nobody else can call in that name"):
        await SPEAKERS.speaking(GATEWAY, Speaker("ci", Role.SUBMIT, ROOT_LOGIN))


@pytest.mark.trio
async def test_a_speaker_without_unix_user_is_nobody_of_this_machine() -> None:
    peer = await SPEAKERS.speaking(RAPID, Speaker("ci", Role.OPERATE))

    assert (peer.uid, peer.all_groups, peer.role) == (NO_UID, frozenset({NO_UID}), Role.OPERATE)


@pytest.mark.trio
async def test_only_trusted_programs_speak_for_others() -> None:
    with pytest.raises(Denied, match="user 4000002 may not call in the name of HTTP user 'ci'; 'trusted'"):
        await SPEAKERS.speaking(STRANGER, CI)


@pytest.mark.trio
async def test_an_unknown_unix_user_is_named() -> None:
    with pytest.raises(InvalidRequest, match="there is no user 'nobody-has-this-name' on this machine"):
        await SPEAKERS.speaking(RAPID, Speaker("ci", Role.SUBMIT, "nobody-has-this-name"))


@pytest.mark.trio
async def test_a_user_who_cannot_be_looked_up_now_is_not_taken_for_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    speakers = Speakers(Access(RAPID.uid))
    with monkeypatch.context() as patch:
        without_descriptors(patch)
        with pytest.raises(Unavailable, match="the users of this machine cannot be read now: Too many open files"):
            await speakers.speaking(RAPID, CI)

    assert (await speakers.speaking(RAPID, CI)).uid == OTHER.pw_uid


@pytest.mark.trio
async def test_a_user_whose_groups_cannot_be_read_now_has_not_just_lost_them(monkeypatch: pytest.MonkeyPatch) -> None:
    found = pwd.getpwnam(OTHER.pw_name)
    without_descriptors(monkeypatch)
    monkeypatch.setattr(pwd, "getpwnam", lambda login: found)

    with pytest.raises(Unavailable, match="the groups of this machine cannot be read now"):
        await Speakers(Access(RAPID.uid)).speaking(RAPID, CI)


@pytest.mark.trio
async def test_a_daemon_without_speakers_refuses_such_a_call() -> None:
    """If it ignored the key, the call would be made with the rights of the gateway."""
    answer = await Service([]).answer(request_bytes("M", [], CI), RAPID)

    assert b"takes no calls in the name of others" in (answer.payload or b"")


# a rapid with a user of its own, and what the files of users and tokens give
APART = Peer(80, 4_000_003, 0, role=Role.READ)
MOND = Peer(81, 4_000_004, 0, role=Role.READ)


@pytest.fixture
def files(tmp_path: Path) -> Paths:
    paths = Paths.under_root(tmp_path)
    paths.rapi.mkdir(parents=True)
    UsersFile(paths).add(User("ops", "x", ("operate",)))
    UsersFile(paths).add(User("ci", "x", ("submit", f"unix={OTHER.pw_name}")))
    TokensFile(paths).create(NewToken("deploy", ("jobs.cancel",), None, ROOT_LOGIN), time.time())
    return paths


def apart(files: Paths, *, has_ganetis_rule: bool = False) -> Speakers:
    access = Access(RAPID.uid, apart=frozenset({APART.uid, MOND.uid}), gateway=APART.uid)
    return Speakers(access, AccountRoles(files, has_ganetis_rule=has_ganetis_rule))


@pytest.mark.trio
async def test_a_rapid_with_a_user_of_its_own_lends_what_the_files_give_to_the_name(files: Paths) -> None:
    speakers = apart(files)

    ops = await speakers.speaking(APART, Speaker("ops", Role.OPERATE))
    ci = await speakers.speaking(APART, CI)
    deploy = await speakers.speaking(APART, Speaker("deploy", Role.OPERATE, ROOT_LOGIN))

    assert (ops.uid, ops.role, ops.caller) == (NO_UID, Role.OPERATE, "ops")
    assert (ci.uid, ci.role, ci.by) == (OTHER.pw_uid, Role.SUBMIT, APART)
    # root himself has given this to the token
    assert (deploy.uid, deploy.role) == (0, Role.OPERATE)


@pytest.mark.trio
@pytest.mark.parametrize(
    ("said", "believed"),
    [
        (Speaker("ci", Role.ADMIN, OTHER.pw_name), (OTHER.pw_uid, Role.SUBMIT)),
        (Speaker("ci", Role.SUBMIT, ROOT_LOGIN), (NO_UID, Role.READ)),
        (Speaker("ci", Role.SUBMIT), (NO_UID, Role.READ)),
        (Speaker("ops", Role.OPERATE, ROOT_LOGIN), (NO_UID, Role.READ)),
        (Speaker("deploy", Role.FULL, ROOT_LOGIN), (0, Role.OPERATE)),
        (Speaker("root", Role.FULL, ROOT_LOGIN), (NO_UID, Role.READ)),
        (Speaker("", Role.ADMIN), (NO_UID, Role.READ)),
        (Speaker("nobody", Role.NONE), (NO_UID, Role.NONE)),
    ],
)
async def test_a_rapid_that_was_taken_over_is_not_believed_beyond_the_files(
    files: Paths, said: Speaker, believed: tuple[int, Role]
) -> None:
    peer = await apart(files).speaking(APART, said)

    assert (peer.uid, peer.role) == believed


@pytest.mark.trio
async def test_a_revoked_token_an_expired_one_and_a_removed_user_lend_nothing_from_the_next_call_on(
    files: Paths,
) -> None:
    speakers, tokens = apart(files), TokensFile(files)
    tokens.create(NewToken("late", ("operate",), 0.0), time.time())
    said = (Speaker("ops", Role.OPERATE), Speaker("deploy", Role.OPERATE, ROOT_LOGIN), Speaker("late", Role.OPERATE))
    before = [(await speakers.speaking(APART, each)).role for each in said]

    UsersFile(files).remove("ops")
    tokens.revoke(tokens.tokens()[0].id, time.time())

    assert before == [Role.OPERATE, Role.OPERATE, Role.READ]
    assert [(await speakers.speaking(APART, each)).role for each in said] == [Role.READ] * 3


@pytest.mark.trio
async def test_a_damaged_file_changes_nothing(files: Paths) -> None:
    speakers = apart(files)
    before = await speakers.speaking(APART, CI)

    files.rapi_tokens.write_bytes(b"{")

    assert await speakers.speaking(APART, CI) == before


@pytest.mark.trio
async def test_under_ganetis_rule_everybody_sees_and_does_all(files: Paths) -> None:
    peer = await apart(files, has_ganetis_rule=True).speaking(APART, Speaker("", Role.ADMIN, ROOT_LOGIN))

    assert (peer.uid, peer.role) == (NO_UID, Role.ADMIN)


@pytest.mark.trio
async def test_no_other_daemon_with_a_user_of_its_own_speaks_for_anybody(files: Paths) -> None:
    with pytest.raises(Denied, match="may not call in the name of"):
        await apart(files).speaking(MOND, CI)


def test_where_the_folder_hands_its_group_down_the_group_may_read_tokens(files: Paths) -> None:
    tokens = TokensFile(files)
    before = stat.S_IMODE(files.rapi_tokens.stat().st_mode)

    files.rapi.chmod(0o2750)
    tokens.create(NewToken("new", ("read",), None), time.time())

    assert (before, stat.S_IMODE(files.rapi_tokens.stat().st_mode)) == (0o600, 0o640)
