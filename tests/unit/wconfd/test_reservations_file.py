"""`tempres.data`: its form, and what is said of a damaged one (wconfd.md 6.2)."""

from typing import Any

import orjson
import pytest

from common.errors import DamagedFile
from common.locks import Owner
from common.objects.kinds import DiskUuid, NetworkUuid, NodeUuid
from daemons.wconfd.core.reservations import Claims, IpAction, IpNote, Reservations, decode, encode
from tests.support.configs import RECORDED

A, E = Owner(11, "/l/job_000011_1700000000", 4711), Owner("cli", "/l/é")
EMPTY = b'{"dRBD":[],"mACs":[],"dRBDSecrets":[],"lVs":[],"iPv4s":[]}'


def claims(*rows: tuple[Owner, Any]) -> Claims[Any]:
    result: Claims[Any] = Claims()
    for owner, resource in rows:
        result = result.with_claim(owner, resource)
    return result


def test_the_file_has_pairs_in_order_and_the_odd_capitals() -> None:
    state = Reservations(
        macs=claims((A, "aa:00:00:00:00:02"), (E, "aa:00:00:00:00:09"), (A, "aa:00:00:00:00:01")),
        volumes=claims((A, "xenvg/vol1")),
        ips=claims(
            (A, IpNote(IpAction.RELEASE, NetworkUuid("net"), "203.0.113.1")),
            (A, IpNote(IpAction.RESERVE, NetworkUuid("net"), "203.0.113.10")),
            (A, IpNote(IpAction.RESERVE, NetworkUuid("net"), "203.0.113.9")),
        ),
    ).with_minor(NodeUuid("node"), 1, DiskUuid("disk"))

    content = encode(state)

    job = b'[11,"/l/job_000011_1700000000",4711]'
    assert content == (
        b'{"dRBD":[["node",[[1,"disk"]]]],'
        b'"mACs":[[["cli","/l/\\u00e9"],["aa:00:00:00:00:09"]],[%b,["aa:00:00:00:00:01","aa:00:00:00:00:02"]]],'
        b'"dRBDSecrets":[],"lVs":[[%b,["xenvg/vol1"]]],'
        b'"iPv4s":[[%b,[["reserve","203.0.113.9","net"],["reserve","203.0.113.10","net"],'
        b'["release","203.0.113.1","net"]]]]}'
    ) % (job, job, job)
    assert decode(content) == state
    assert encode(decode(content)) == content


@pytest.mark.parametrize("name", ["tempres.data", "tempres.data.busy"])
def test_recorded_files_are_read_and_written_the_same(name: str) -> None:
    content = (RECORDED / name).read_bytes()

    assert encode(decode(content)) == content


def changed(**parts: Any) -> bytes:
    return orjson.dumps({**orjson.loads(EMPTY), **parts})


@pytest.mark.parametrize(
    ("content", "where", "reason"),
    [
        (b"", "byte 0", "Input"),
        (b'{"dRBD":[]', "byte 10", ""),
        (b"[]", "$", "expected an object with the keys dRBD, dRBDSecrets, iPv4s, lVs, mACs"),
        (changed(macs=[]), "$", "expected an object"),
        (changed(mACs={}), "$.mACs", "expected a list"),
        (changed(mACs=[[[1, "/l"], ["a"]], [[1, "/l"], ["b"]]]), "$.mACs[1]", "owner job/1 is listed twice"),
        (changed(mACs=[[[1, "/l"], ["a"]], [[2, "/l"], ["A"]]]), "$.mACs[1]", "'a' is reserved by job/1"),
        (changed(mACs=[[[1, "/l"], []]]), "$.mACs[0]", "at least one"),
        (changed(lVs=[[[1, "/l"], [7]]]), "$.lVs[0]", "expected text, got 7"),
        (changed(dRBDSecrets=[[[-1, "/l"], ["x"]]]), "$.dRBDSecrets[0]", "job number"),
        (changed(iPv4s=[[[1, "/l"], [["take", "1.2.3.4", "n"]]]]), "$.iPv4s[0]", "'reserve' or 'release'"),
        (changed(iPv4s=[[[1, "/l"], [["reserve", "1.2.3.400", "n"]]]]), "$.iPv4s[0]", "IPv4 address"),
        (changed(dRBD=[["n", [[0, "d"]]], ["n", []]]), "$.dRBD[1]", None),
        (changed(dRBD=[["n", []], ["m", [[0, "d"], [-1, "d"]]]]), "$.dRBD[1][1][1]", "expected a minor"),
        (changed(dRBD=[["n", [[0, "d"], [0, "e"]]]]), "$.dRBD[0][1][1]", "not listed before"),
        (changed(dRBD=[["n", [[True, "d"]]]]), "$.dRBD[0][1][0]", "expected a minor"),
    ],
)
def test_a_damaged_file_is_refused_with_its_place(content: bytes, where: str, reason: str | None) -> None:
    with pytest.raises(DamagedFile) as caught:
        decode(content)

    assert caught.value.fields["where"] == where
    assert f"damaged at {where}: " in caught.value.message
    assert (reason or "") in caught.value.message


def test_nothing_reserved_is_five_empty_lists() -> None:
    assert encode(Reservations()) == EMPTY
    assert decode(EMPTY) == Reservations()
