"""What a `traceparent` says, and that a malformed one counts for nothing. Source: W3C Trace Context, 3.2."""

import pytest

from common.tracecontext import TraceParent, read_traceparent, trace_text

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
GOOD = f"00-{TRACE}-{SPAN}-01"


@pytest.mark.parametrize(
    ("text", "is_sampled"),
    [
        (GOOD, True),
        (f"00-{TRACE}-{SPAN}-00", False),
        # flags that this version does not know
        (f"00-{TRACE}-{SPAN}-ff", True),
        (f"00-{TRACE}-{SPAN}-02", False),
        # a later version, also with more after its flags
        (f"01-{TRACE}-{SPAN}-01", True),
        (f"fe-{TRACE}-{SPAN}-01-what-comes", True),
    ],
)
def test_a_traceparent_is_read_and_written_as_version_00(text: str, is_sampled: bool) -> None:
    found = read_traceparent(text)

    assert found == TraceParent(TRACE, SPAN, is_sampled)
    assert found.text == f"00-{TRACE}-{SPAN}-0{int(is_sampled)}"
    assert read_traceparent(found.text) == found


@pytest.mark.parametrize(
    "text",
    [
        "",
        "00",
        GOOD[:-1],
        GOOD + "0",
        GOOD + "-",
        GOOD + "-more",
        GOOD + "\n",
        GOOD.upper(),
        f"ff-{TRACE}-{SPAN}-01",
        f"0-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE[:-1]}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}g-01",
        f"00-{TRACE}-{SPAN}-0x",
        f"00_{TRACE}_{SPAN}_01",
        f"01-{TRACE}-{SPAN}-01x",
        f"00-{TRACE[:-1]}\u0661-{SPAN}-01",
        "x" * 100_000,
    ],
)
def test_a_malformed_one_is_none(text: str) -> None:
    assert read_traceparent(text) is None
    assert trace_text([text]) == ""


def test_a_job_keeps_one_without_its_blanks_and_nothing_of_several() -> None:
    assert trace_text([f" {GOOD}\t"]) == GOOD
    assert trace_text([]) == ""
    assert trace_text([GOOD, GOOD]) == ""
