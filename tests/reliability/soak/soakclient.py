"""A client of a soak: submits, waits, cancels and changes things at random, and keeps what it was told.

Run as a program with the arguments ROOT NAME SEED STOP-FILE TALLY; it ends when the stop file is there, and leaves its
exchanges and its rules in `ROOT/told-NAME`.
"""

import pickle
import random
import sys
from pathlib import Path
from typing import Any, Final

import attrs

from common.paths import Paths
from tests.reliability.driver import Driver, NoRest
from tests.reliability.ledger import Exchange
from tests.reliability.oracle import Rules

SHARED_LOCK: Final = "node/of-all"
_KEPT: Final = 12


@attrs.frozen
class Told:
    """What a client brings home."""

    exchanges: tuple[Exchange, ...]
    rules: Rules
    # internal errors, and what did not come to rest
    complaints: tuple[str, ...]


@attrs.frozen
class _Absent:
    """Stands for the farm, which is another process: that one starts daemons again."""

    paths: Paths

    def revive(self) -> None:
        pass


class Client:
    """Acts at random."""

    def __init__(self, root: Path, name: str, chance: random.Random, tally: Path) -> None:
        self.driver = Driver(_Absent(Paths.under_root(root)), tally, prefix=f"{name}-")  # type: ignore[arg-type]
        self._name = name
        self._chance = chance
        self._recent: list[int] = []
        self._exclusive: set[str] = set()
        self._after: dict[str, str] = {}
        self._uuids: list[str] = []
        self._ports = 0
        self._keys = 0

    def act(self) -> None:
        weights = {
            self._simple: 20,
            self._exclusive_job: 10,
            self._opcodes: 6,
            self._chain: 6,
            self._batch: 6,
            self._failing: 4,
            self._settle: 10,
            self._cancel: 6,
            self._archive: 3,
            self._filter: 2,
            self._port: 2,
            self._own_lock: 3,
        }
        self._chance.choices(list(weights), list(weights.values()))[0]()

    def told(self, complaints: tuple[str, ...] = ()) -> Told:
        driver = self.driver
        rules = Rules(frozenset(self._exclusive), dict(self._after))
        return Told(tuple(driver.exchanges), rules, (*complaints, *driver.internal_errors))

    def _simple(self) -> None:
        self._keep(self.driver.submit(self._work(locks=self._chance.choice(({}, {SHARED_LOCK: "shared"})))))

    def _exclusive_job(self) -> None:
        op = self._work(locks={SHARED_LOCK: "exclusive"})
        self._exclusive.add(op["comment"])
        self._keep(self.driver.submit(op))

    def _opcodes(self) -> None:
        self._keep(self.driver.submit(*(self._work() for _ in range(self._chance.randint(2, 4)))))

    def _chain(self) -> None:
        first = self._work()
        ids = self.driver.submit(first)
        if ids:
            second = self._work(after=ids)
            self._after[second["comment"]] = first["comment"]
            self._keep([*ids, *self.driver.submit(second)])

    def _batch(self) -> None:
        self._keys += 1
        key = f"{self._name}-{self._keys}" if self._chance.random() < 0.5 else None
        self._keep(self.driver.submit_many(*((self._work(),) for _ in range(self._chance.randint(2, 8))), key=key))

    def _failing(self) -> None:
        self._keep(self.driver.submit(self._work(exit_codes=[7])))

    def _settle(self) -> None:
        if self._recent:
            self.driver.wait_for(self._chance.choice(self._recent))

    def _cancel(self) -> None:
        if self._recent:
            self.driver.cancel(self._chance.choice(self._recent))

    def _archive(self) -> None:
        if self._recent:
            job_id = self._recent.pop(0)
            self.driver.wait_for(job_id)
            self.driver.archive(job_id)

    def _filter(self) -> None:
        if self._uuids and self._chance.random() < 0.5:
            self.driver.delete_filter(self._uuids.pop())
        elif uuid := self.driver.add_filter(f"{self._name}-{len(self._uuids)}-{self._chance.random()}"):
            self._uuids.append(uuid)

    def _port(self) -> None:
        self._ports += 1
        self.driver.add_port(20_000 + 1_000 * int(self._name[1:]) + self._ports)

    def _own_lock(self) -> None:
        self.driver.lock(self._name, f"node/{self._name}")
        self.driver.free(self._name)

    def _work(self, **fields: Any) -> dict[str, Any]:
        return self.driver.work(seconds=self._chance.choice((0, 0, 0.05, 0.3, 1.0)), **fields)

    def _keep(self, ids: list[int]) -> None:
        self._recent = [*self._recent, *ids][-_KEPT:]


def main(root: Path, name: str, seed: str, stop: Path, tally: Path) -> None:
    client = Client(root, name, random.Random(seed), tally)
    complaints: tuple[str, ...] = ()
    try:
        while not stop.exists():
            client.act()
    except NoRest as error:
        complaints = (f"{name}: {error}",)
    (root / f"told-{name}").write_bytes(pickle.dumps(client.told(complaints)))
    client.driver.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], Path(sys.argv[4]), Path(sys.argv[5]))
