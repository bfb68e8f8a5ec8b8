"""How long the lists among a call's arguments may be.

Source: DESIGN section 4.
"""

import attrs

from common.errors import InvalidRequest
from protocol.envelope import Call


@attrs.frozen
class ItemBound:
    """A bound on the length of lists among a call's arguments, so that no call occupies the daemon for long."""

    count: int
    # key of the setting
    key: str

    def check(self, call: Call) -> None:
        """Raises: InvalidRequest: a list is too long; the message has its length and the bound."""
        for value in call.params.values() if isinstance(call.params, dict) else call.params:
            if isinstance(value, list) and len(value) > self.count:
                raise InvalidRequest(
                    f"an argument of {call.method} has {len(value)} items, of at most {self.count}; "
                    f"call several times, or raise '{self.key}' in '[limits]'",
                    limit=self.count,
                )
