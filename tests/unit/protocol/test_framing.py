"""DESIGN section 4, "Framing"."""

import pytest

from protocol.framing import ETX, Framer, MessageTooLarge, pack


def test_message_ends_at_terminator() -> None:
    assert Framer().feed(b'{"a":1}\x03') == [b'{"a":1}']


def test_one_feed_may_bring_several_messages() -> None:
    framer = Framer()

    assert framer.feed(b"one\x03two\x03thr") == [b"one", b"two"]
    assert framer.pending == 3
    assert framer.feed(b"ee\x03") == [b"three"]
    assert framer.pending == 0


def test_single_bytes_make_a_message() -> None:
    framer = Framer()

    made = [framer.feed(bytes([byte])) for byte in b"abc\x03"]

    assert made == [[], [], [], [b"abc"]]


def test_empty_message_is_a_message() -> None:
    assert Framer().feed(ETX + ETX) == [b"", b""]


def test_packed_message_comes_out_as_it_was() -> None:
    assert Framer().feed(pack(b"payload")) == [b"payload"]


def test_message_of_exactly_the_limit_passes() -> None:
    assert Framer(4).feed(b"1234\x03") == [b"1234"]


@pytest.mark.parametrize("pieces", [[b"12345"], [b"12345\x03"], [b"123", b"45"], [b"123", b"45\x03"], [b"1\x0312345"]])
def test_message_past_the_limit_is_refused(pieces: list[bytes]) -> None:
    framer = Framer(4)
    *harmless, fatal = pieces
    for piece in harmless:
        framer.feed(piece)

    with pytest.raises(MessageTooLarge, match="more than 4 bytes"):
        framer.feed(fatal)
    assert framer.pending == 0


def test_buffer_never_exceeds_the_limit() -> None:
    framer = Framer(100)

    for _ in range(100):
        framer.feed(b"x")
        assert framer.pending <= 100

    with pytest.raises(MessageTooLarge):
        framer.feed(b"x")
