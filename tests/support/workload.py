"""Twenty jobs that touch everything a crash could spoil: exclusive locks, chains, failures, several opcodes."""

from collections.abc import Iterator

import attrs

from common.ids import JobId
from protocol.luxi.jobs import OpInput
from tests.support.cluster import Cluster
from tests.support.stamps import Stamps

LOCK = {"node/shared-by-six": "exclusive"}


@attrs.frozen
class Workload:
    """The jobs of one submission, and what must have become of them."""

    stamps: Stamps
    # job id -> its final status
    expected: dict[JobId, str]
    # these want one lock exclusively
    exclusive: tuple[JobId, ...]
    # each waits for the one before it
    chain: tuple[JobId, ...]
    # job id -> how many opcodes of it run
    opcodes: dict[JobId, int]

    def assert_right(self, cluster: Cluster, *, killed: JobId | None = None) -> None:
        """Wait until all are final, and judge.

        Args:
            killed: a job without dependents that is to end in error instead, its opcode begun at most once.
        """
        states = cluster.wait(*self.expected)
        assert dict(zip(self.expected, states, strict=True)) == self.expected | ({killed: "error"} if killed else {})
        self.stamps.assert_nothing_ran_twice()
        for job_id, opcode in self._runs():
            if job_id != killed:
                assert self.stamps.run(job_id, opcode).end is not None
        for job_id in set(self.expected) - set(self.opcodes):
            assert self.stamps.runs(job_id) == [], f"job {job_id} must not run"
        self.stamps.assert_never_together(self.exclusive)
        self.stamps.assert_in_order(*self.chain)

    def _runs(self) -> Iterator[tuple[JobId, int]]:
        for job_id, count in self.opcodes.items():
            yield from ((job_id, opcode) for opcode in range(count))


def submit_twenty(cluster: Cluster, stamps: Stamps, *, gate: str | None = None) -> Workload:
    """Submit the jobs, all at once.

    Args:
        gate: those without locks, and the first that wants the lock, do not end before this gate is opened.
    """
    after_previous = [[-1, ["success"]]]
    free: list[tuple[OpInput, ...]] = [(stamps.gated(gate) if gate else stamps.work(seconds=0.3),) for _ in range(5)]
    exclusive: list[tuple[OpInput, ...]] = [(stamps.work(seconds=0.1, locks=LOCK),) for _ in range(6)]
    if gate:
        exclusive[0] = (stamps.gated(gate, locks=LOCK),)
    chain: list[tuple[OpInput, ...]] = [(stamps.work(),)]
    chain += [(stamps.work(depends=after_previous),) for _ in range(3)]
    double: list[tuple[OpInput, ...]] = [(stamps.work(), stamps.work()) for _ in range(2)]
    failing: list[tuple[OpInput, ...]] = [
        (stamps.work(exit_code=3), stamps.work()),
        (stamps.work(depends=[[-1, ["error"]]]),),
        (stamps.work(depends=[[-2, ["success"]]]),),
    ]
    ids = cluster.submit_many(*free, *exclusive, *chain, *double, *failing)
    assert len(ids) == 20
    failed, rescued, doomed = ids[17:]
    return Workload(
        stamps=stamps,
        expected=dict.fromkeys(ids, "success") | {failed: "error", doomed: "error"},
        exclusive=tuple(ids[5:11]),
        chain=tuple(ids[11:15]),
        opcodes=dict.fromkeys(ids[:17], 1) | {ids[15]: 2, ids[16]: 2, failed: 1, rescued: 1},
    )
