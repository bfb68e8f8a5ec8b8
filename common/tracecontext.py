"""The `traceparent` of W3C's Trace Context: the trace that a job belongs to, and the span that submitted it.

    00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
       trace                            span             flags

What is malformed counts for nothing: its sender is not told, and the job begins no trace of somebody else's.

Source: W3C Trace Context, level 1, section 3.2; OpenTelemetry, "Environment Variables as Context Propagation Carriers".
"""

import re
from typing import Final

import attrs

HEADER: Final = "traceparent"
# in the environment of those who submit, and of commands
VARIABLE: Final = "TRACEPARENT"
# a later version may have more after its flags, and "ff" is none
_TEXT: Final = re.compile(r"(?!ff)([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.ASCII)
_SAMPLED: Final = 1


@attrs.frozen
class TraceParent:
    """A span of somebody else's."""

    # 32 digits of base 16, in small letters, not all 0
    trace_id: str
    # 16 of them, not all 0
    span_id: str
    # whether its trace is recorded
    is_sampled: bool

    @property
    def text(self) -> str:
        """As version 00 has it, without flags that this version does not know."""
        return f"00-{self.trace_id}-{self.span_id}-{_SAMPLED if self.is_sampled else 0:02x}"


def read_traceparent(text: str) -> TraceParent | None:
    """None: it is malformed. A later version is read as far as it is like this one."""
    found = _TEXT.fullmatch(text)
    if found is None or (found[1] == "00" and found[5] is not None):
        return None
    if not int(found[2], 16) or not int(found[3], 16):
        return None
    return TraceParent(found[2], found[3], bool(int(found[4], 16) & _SAMPLED))


def trace_text(given: list[str]) -> str:
    """What a job keeps of the headers, or the variable, that state one; "": nothing, as of several."""
    found = read_traceparent(given[0].strip(" \t")) if len(given) == 1 else None
    return "" if found is None else found.text
