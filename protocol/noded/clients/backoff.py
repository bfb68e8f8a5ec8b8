"""Which silent nodes are left alone for now, and until when.

Theory. A node that gives no sign of life costs each caller its whole limit of time. So after a failure it is left alone
for a pause that doubles, up to a minute, and calls to it fail at once. Any sign of life ends that. Calls that were
under way together fail together, which counts as one failure.

Pure: time comes in as `now`, seconds of any clock that does not jump.
"""

from collections.abc import Mapping
from typing import Final, Self

import attrs

from protocol.noded.clients.outcomes import Failed, Skipped

FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 60.0


@attrs.frozen
class Silence:
    """A node's failures in a row."""

    failures: int
    # when the last one was counted; calls that began before do not count again
    since: float
    # when the node is asked again
    until: float
    # text of the last failure
    text: str


@attrs.frozen
class BackOff:
    """The silent nodes, by name; a node that is not in it may be asked."""

    silences: Mapping[str, Silence] = attrs.field(factory=dict)

    def pause(self, node: str, now: float) -> Silence | None:
        """The silence because of which the node is not asked now; None: it may be asked."""
        silence = self.silences.get(node)
        return silence if silence is not None and now < silence.until else None

    def after(self, node: str, outcome: object, began: float, now: float) -> Self:
        """The state after a call that came to this outcome.

        Args: began: when the call began.
        """
        if isinstance(outcome, Failed) and outcome.kind.is_silence:
            return self._silent(node, outcome.text, began, now)
        if isinstance(outcome, Skipped) or (isinstance(outcome, Failed) and not outcome.kind.is_sign_of_life):
            return self
        if node not in self.silences:
            return self
        return attrs.evolve(self, silences={name: each for name, each in self.silences.items() if name != node})

    def _silent(self, node: str, text: str, began: float, now: float) -> Self:
        before = self.silences.get(node)
        if before is not None and began < before.since:
            return self
        failures = 1 if before is None else before.failures + 1
        # the exponent is bounded: floats are not without end
        pause_s = min(FIRST_PAUSE_S * 2.0 ** min(failures - 1, 30), LONGEST_PAUSE_S)
        return attrs.evolve(self, silences={**self.silences, node: Silence(failures, now, now + pause_s, text)})
