"""Whether and when a call that failed is sent again: a decision without a clock.

Theory. A call that was not delivered may always be sent again. One that may have been delivered is repeated only if a
second delivery does no harm: reading, and submissions with a key. Pauses double from a tenth of a second to two
seconds, with a random part, so that many clients of a server that was restarted do not come at once.

Source: DESIGN section 4.
"""

from typing import Final

import attrs

from common.errors import ConnectionLost, Unavailable

FIRST_PAUSE_S: Final = 0.1
LONGEST_PAUSE_S: Final = 2.0
# seconds of all attempts together: of a server that has replied before, and of one that has not, perhaps for ever
PATIENCE_S: Final = 60.0
FIRST_PATIENCE_S: Final = 2.0


@attrs.frozen
class Failure:
    """An attempt that got no value."""

    # whether the server may have received the call
    may_have_arrived: bool
    # seconds after which the server wants to be asked again; None: it did not say
    retry_after_s: float | None = None


class NoReply(Unavailable):
    """No reply of Gantry came.

    Args: failure: None: another attempt would be in vain.
    """

    def __init__(self, message: str, failure: Failure | None = None) -> None:
        super().__init__(message)
        self.failure = failure


class LostReply(NoReply, ConnectionLost):
    """The connection broke after the call was sent."""

    def __init__(self, message: str) -> None:
        super().__init__(message, Failure(may_have_arrived=True))


def next_pause(
    failure: Failure | None, attempt: int, spent_s: float, patience_s: float, chance: float, *, is_repeatable: bool
) -> float | None:
    """Seconds to wait before the next attempt; None: there is none.

    Args:
        attempt: number of attempts so far, from 1.
        spent_s: seconds since the first attempt began.
        chance: a random number from 0 to 1.
    """
    if failure is None or (failure.may_have_arrived and not is_repeatable):
        return None
    pause: float = min(FIRST_PAUSE_S * 2 ** min(attempt - 1, 10), LONGEST_PAUSE_S) * (0.5 + chance / 2)
    if failure.retry_after_s is not None:
        pause = max(pause, failure.retry_after_s)
    return pause if spent_s + pause < patience_s else None
