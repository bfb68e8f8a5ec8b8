"""A node that counts as up to date is up to date, whatever its daemon did with requests (noded.md 8)."""

from typing import Final

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from daemons.wconfd.core.config.replicas import CallFailure, NodeHolding, Part

FAILURES: Final = st.sampled_from(CallFailure)


class NodeAndSender(RuleBasedStateMachine):
    """A node with files, and a sender that knows only the replies."""

    def __init__(self) -> None:
        super().__init__()
        self.newest = dict.fromkeys(Part, 1)
        self.is_candidate = True
        self.files: dict[Part, int] = {}
        # requests without a reply that may still be carried out
        self.late: list[tuple[Part, int]] = []
        self.holding = NodeHolding()
        self.sent: list[Part] = []

    @property
    def wanted(self) -> dict[Part, int]:
        return {part: number for part, number in self.newest.items() if part is Part.SSCONF or self.is_candidate}

    @rule(part=st.sampled_from(Part))
    def change(self, part: Part) -> None:
        self.newest[part] += 1

    @rule()
    def promote_or_demote(self) -> None:
        # the flag is a part of the configuration
        self.is_candidate = not self.is_candidate
        self.newest[Part.CONFIG] += 1

    @precondition(lambda self: self.holding.lacks(self.wanted))
    @rule()
    def send_and_get_a_reply(self) -> None:
        part = self._next()
        self.files[part] = self.newest[part]
        self.holding = self.holding.received(part, self.newest[part])

    @precondition(lambda self: self.holding.lacks(self.wanted))
    @rule(failure=FAILURES, acts=st.booleans())
    def send_and_fail(self, failure: CallFailure, acts: bool) -> None:
        part = self._next()
        if failure is CallFailure.UNKNOWN:
            if acts:
                self.files[part] = self.newest[part]
            else:
                self.late.append((part, self.newest[part]))
        self.holding = self.holding.failed(part, failure)

    @precondition(lambda self: self.late)
    @rule(data=st.data())
    def carry_out_late(self, data: st.DataObject) -> None:
        part, number = self.late.pop(data.draw(st.integers(0, len(self.late) - 1)))
        self.files[part] = number

    @precondition(lambda self: not self.holding.lacks(self.wanted) and self.holding.in_doubt)
    @rule()
    def settle(self) -> None:
        for part, number in self.late:
            self.files[part] = number
        self.late.clear()
        self.holding = self.holding.settled()

    @rule()
    def lose_the_disk_unreachable(self) -> None:
        self.files.clear()
        self.late.clear()
        # the sender hears of it by a call that fails
        self.holding = self.holding.failed(Part.SSCONF, CallFailure.SILENT)

    @rule()
    def send_anew(self) -> None:
        self.holding = self.holding.anew()
        assert self.holding.lacks(self.wanted) is Part.SSCONF

    def _next(self) -> Part:
        part = self.holding.lacks(self.wanted)
        assert part is not None
        # a node that does not know its candidates yet is told of them first
        assert part is Part.SSCONF or self.holding.numbers[Part.SSCONF] == self.newest[Part.SSCONF]
        return part

    @invariant()
    def is_up_to_date_if_it_counts_so(self) -> None:
        if not self.holding.lacks(self.wanted) and not self.holding.in_doubt:
            assert {part: self.files.get(part) for part in self.wanted} == self.wanted

    @invariant()
    def only_doubts_hide_late_requests(self) -> None:
        assert self.holding.in_doubt or not self.late


NodeAndSender.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
test_node_and_sender = NodeAndSender.TestCase
