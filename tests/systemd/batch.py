"""Jobs that last until they are told to end, each of which writes down its begin and its end."""

from collections import Counter
from typing import Final

from tests.support.wait import wait_until
from tests.systemd.engine import LEDGER, PATIENCE_S, Engine

# an exact count of begins: nothing else writes to the files of a batch
_JOB: Final = (
    "echo $GANTRY_JOB_ID >> {place}/begun; until [ -e {place}/go ]; do sleep 0.2; done; "
    "echo $GANTRY_JOB_ID >> {place}/ended"
)


class Batch:
    """So many jobs, of one submission, acknowledged. Args: options: more of `gnt-job run`."""

    def __init__(self, engine: Engine, count: int = 20, options: str = "") -> None:
        self._engine = engine
        container = engine.container
        self._place = container.check(f"mktemp -d {LEDGER}/XXXXXX; chmod 1777 {LEDGER}/*").split()[0]
        command = _JOB.format(place=self._place)
        said = container.check(f"gnt-job run --cwd / {options} --each n=1..{count} --shell -- '{command}'")
        self.ids = tuple(map(int, said.split()))
        assert len(self.ids) == count, said

    def until_begun(self, count: int | None = None) -> None:
        """Wait until so many, or all, run."""
        wanted = len(self.ids) if count is None else count
        wait_until(
            lambda: len(self.begun()) >= wanted,
            what=f"{wanted} jobs to run",
            timeout_s=PATIENCE_S,
            state=lambda: self._engine.container.run("gnt-job list --all | tail -30; tail -5 /var/log/gantry/*").output,
        )

    def let_end(self) -> None:
        self._engine.container.check(f"touch {self._place}/go")

    def begun(self) -> Counter[int]:
        """How often each job has begun."""
        return self._noted("begun")

    def ended(self) -> Counter[int]:
        """How often each job has come to its end."""
        return self._noted("ended")

    def check_each_succeeds_once(self) -> None:
        """Let them end. Raises: AssertionError: one has failed, was lost, or was run twice."""
        self.let_end()
        assert set(self._engine.until_ended(self.ids).values()) == {"success"}
        assert self.begun() == self.ended() == Counter(self.ids)

    def _noted(self, name: str) -> Counter[int]:
        return Counter(map(int, self._engine.container.run(f"cat {self._place}/{name} 2>/dev/null").output.split()))
