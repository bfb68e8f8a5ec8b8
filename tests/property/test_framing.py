"""Framing against a twin that waits for the whole stream."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from protocol.framing import ETX, Framer

STREAMS = st.binary(max_size=60).map(lambda raw: raw.replace(b"\x04", ETX).replace(b"\x05", ETX)) | st.lists(
    st.sampled_from([b"a", b"bc", ETX]), max_size=40
).map(b"".join)


def cut_at_once(stream: bytes) -> tuple[list[bytes], bytes]:
    """The twin."""
    *messages, rest = stream.split(ETX)
    return messages, rest


@given(stream=STREAMS, cuts=st.lists(st.integers(0, 60)))
def test_messages_do_not_depend_on_the_pieces(stream: bytes, cuts: list[int]) -> None:
    framer = Framer()
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]

    messages = [message for start, end in itertools.pairwise(edges) for message in framer.feed(stream[start:end])]

    expected, rest = cut_at_once(stream)
    assert messages == expected
    assert framer.pending == len(rest)
