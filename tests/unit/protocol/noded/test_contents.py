"""Contents of files on the wire: both encodings, their limits, and what is refused (noded.md 7)."""

import base64
import zlib

import pytest

from common.errors import InvalidRequest
from common.wire import structure
from protocol.noded.call import MAX_CONTENT, PACKED_FROM, Content


def test_the_example_of_the_sheet_is_read() -> None:
    assert Content.from_wire([1, "eF6rqBgFoyFA/RAAADlOGVA="]) == Content(b"x" * 600)


def test_content_is_packed_from_4096_bytes_on() -> None:
    assert Content(b"x" * (PACKED_FROM - 1)).to_wire() == [0, "x" * 4095]
    packed = Content(b"x" * PACKED_FROM).to_wire()

    assert isinstance(packed, list)
    assert packed[0] == 1
    assert zlib.decompress(base64.b64decode(packed[1])) == b"x" * 4096


def test_bytes_that_latin_1_and_utf_8_read_differently_are_packed_even_if_they_are_few() -> None:
    content = Content('{"comment": "Zürich"}'.encode())

    assert content.to_wire() != [0, content.data.decode()]
    assert Content.from_wire(content.to_wire()) == content


def test_a_plain_text_is_written_as_utf_8_as_ganeti_does() -> None:
    assert Content.from_wire([0, "Zürich"]).data == "Zürich".encode()


def test_content_of_any_size_is_taken_in_both_encodings() -> None:
    assert Content.from_wire([0, "x" * 100_000]).data == b"x" * 100_000
    assert Content.from_wire([1, base64.b64encode(zlib.compress(b"")).decode()]).data == b""


def test_a_bomb_is_refused_with_the_limit() -> None:
    bomb = zlib.compressobj(9)
    packed = b"".join(bomb.compress(bytes(2**20)) for _ in range(MAX_CONTENT // 2**20 + 1)) + bomb.flush()

    assert len(packed) < 100_000
    with pytest.raises(InvalidRequest, match=f"more than {MAX_CONTENT} bytes"):
        structure([1, base64.b64encode(packed).decode()], Content)


def test_content_of_exactly_the_limit_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("protocol.noded.call.MAX_CONTENT", 5000)

    assert Content.from_wire(Content(b"x" * 5000).to_wire()).data == b"x" * 5000
    for wire in (Content(b"x" * 5001).to_wire(), [0, "x" * 5001]):
        with pytest.raises(InvalidRequest, match="more than 5000 bytes"):
            Content.from_wire(wire)


@pytest.mark.parametrize(
    ("wire", "said"),
    [
        ([2, "x"], "expected [0, text]"),
        ([True, "x"], "expected [0, text]"),
        ([False, "x"], "expected [0, text]"),
        (["x"], "expected [0, text]"),
        ("x", "expected [0, text]"),
        ([0, 5], "expected [0, text]"),
        ([1, "eF6r*BgF"], "is not base64"),
        ([1, "Zürich"], "is not base64"),
        ([1, "aGVsbG8="], "is not a zlib stream"),
        ([1, "eF6rqBgFoyFA/RAAADlO"], "is not a zlib stream: it breaks off"),
        ([0, "\ud800"], "lone surrogate"),
    ],
)
def test_another_form_is_refused(wire: object, said: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        structure(wire, Content)

    assert said in caught.value.message
