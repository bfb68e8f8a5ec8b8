"""What a node has of the configuration, and what it lacks. Pure.

Theory. The contents of each part are numbered as they are made. A node has the number of each part that it
acknowledged last, and should have the newest; so only the latest state is sent, and states in between are left out.

What a failed call leaves on a node is unknown, and counts as nothing. After a failure the node may also have been
set up anew, so it gets everything again, unless the daemon itself has refused one part.

A request without a reply may be carried out late, even after one that was sent later: a stopped daemon finds both when
it goes on. Then the node is in doubt, and gets everything once more when its daemon must have ended the late ones.
"""

import enum
from collections.abc import Mapping, Sequence

import attrs


class Part(enum.Enum):
    """A part of the configuration; in the order of sending, as node daemons obey only whom ssconf names."""

    # for all nodes
    SSCONF = "ssconf"
    # for master candidates
    CONFIG = "config.data"
    # files of ours, beside the configuration
    SCHEDULES = "schedules.data"
    RESOURCES = "resources.data"


class Failure(enum.Enum):
    # the daemon has replied with a refusal, or this part could not be sent for a reason of our own
    REFUSED = "refused"
    # nothing was sent, or nothing can be carried out any more
    SILENT = "silent"
    # the request may be carried out, now or later
    UNKNOWN = "unknown"


@attrs.frozen
class Holding:
    """What one node has, as far as known; a value."""

    # numbers of the contents that it has; no number: nothing that is known of
    numbers: Mapping[Part, int] = attrs.field(factory=dict)
    # whether requests without a reply may still be carried out
    in_doubt: bool = False

    def lacks(self, newest: Mapping[Part, int]) -> Part | None:
        """The part to send next; None: it has all. Args: newest: numbers of what the node should have."""
        return next(iter(self.lacking(newest)), None)

    def lacking(self, newest: Mapping[Part, int]) -> Sequence[Part]:
        """All parts that it lacks, in the order of sending."""
        return [part for part in Part if part in newest and self.numbers.get(part) != newest[part]]

    def received(self, part: Part, number: int) -> "Holding":
        """After it has acknowledged this content."""
        return attrs.evolve(self, numbers={**self.numbers, part: number})

    def failed(self, part: Part, failure: Failure) -> "Holding":
        """After a call with this part has failed."""
        if failure is Failure.REFUSED:
            return attrs.evolve(self, numbers={each: at for each, at in self.numbers.items() if each is not part})
        return Holding(in_doubt=self.in_doubt or failure is Failure.UNKNOWN)

    def anew(self) -> "Holding":
        """When it is to get everything again."""
        return Holding(in_doubt=self.in_doubt)

    def settled(self) -> "Holding":
        """When no request is left that may be carried out late; after a doubt it gets everything again."""
        return Holding() if self.in_doubt else self
