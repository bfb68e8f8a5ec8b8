"""The choice among jobs that use counted resources in the dumbest way: every answer is worked out from all jobs.

It knows no classes, no wants and no lines; weights are off, so that jobs go by priority and age.
"""

from collections.abc import Mapping

import attrs

Place = tuple[int, int]


@attrs.define
class NaiveUser:
    job_id: int
    priority: int
    uses: Mapping[str, int]
    # name of a limit of one job; None: it has none
    limit: str | None = None

    @property
    def place(self) -> Place:
        return self.priority, self.job_id


@attrs.define
class NaiveUnits:
    max_bypass: int
    slots: int
    totals: dict[str, int] = attrs.field(factory=dict)
    ready: dict[int, NaiveUser] = attrs.field(factory=dict)
    running: dict[int, NaiveUser] = attrs.field(factory=dict)
    # ended, or without a process for the moment: they take no slot, but have their units
    left: dict[int, NaiveUser] = attrs.field(factory=dict)
    passes: dict[int, int] = attrs.field(factory=dict)
    overdue: set[int] = attrs.field(factory=set)

    def free(self, key: str) -> int:
        users = [*self.running.values(), *self.left.values()]
        return self.totals.get(key, 0) - sum(user.uses.get(key, 0) for user in users)

    def is_full(self, user: NaiveUser) -> bool:
        return user.limit is not None and any(each.limit == user.limit for each in self.running.values())

    def is_hopeless(self, user: NaiveUser) -> bool:
        return any(count > self.totals.get(key, 0) for key, count in user.uses.items())

    def keeper(self, key: str) -> NaiveUser | None:
        found = [user for user in self.ready.values() if user.job_id in self.overdue and key in user.uses]
        return min(found, key=lambda user: user.place, default=None)

    def is_short_of(self, user: NaiveUser, key: str) -> bool:
        keeper, kept = self.keeper(key), 0
        if keeper is not None and keeper.priority <= user.priority:
            is_alike = (keeper.priority, keeper.uses, keeper.limit) == (user.priority, user.uses, user.limit)
            kept = 0 if is_alike else keeper.uses[key]
        return user.uses[key] > self.free(key) - kept

    def is_short(self, user: NaiveUser) -> bool:
        return any(self.is_short_of(user, key) for key in user.uses)

    def first(self, key: str) -> NaiveUser | None:
        """The job that has waited longest for the resource."""
        found = [
            user
            for user in self.ready.values()
            if key in user.uses and self.is_short(user) and not self.is_full(user) and not self.is_hopeless(user)
        ]
        return min(found, key=lambda user: user.place, default=None)

    def settle(self) -> None:
        """Nothing is kept for a job that something else holds, or that has gone."""
        for job_id in tuple(self.overdue):
            user = self.ready.get(job_id)
            if user is None or self.is_full(user) or self.is_hopeless(user):
                self.overdue.discard(job_id)
        for job_id in self.passes.keys() - self.ready.keys():
            del self.passes[job_id]

    def pick(self) -> list[int]:
        """The jobs that start now, in order."""
        picked = []
        self.settle()
        while len(self.running) < self.slots:
            able = [user for user in self.ready.values() if not self.is_full(user) and not self.is_short(user)]
            if not able:
                break
            user = min(able, key=lambda each: each.place)
            passed = {first.job_id for key in user.uses if (first := self.first(key)) and first.place < user.place}
            del self.ready[user.job_id]
            for job_id in passed:
                self.passes[job_id] = self.passes.get(job_id, 0) + 1
                if self.passes[job_id] >= self.max_bypass:
                    self.overdue.add(job_id)
            self.running[user.job_id] = user
            picked.append(user.job_id)
            self.settle()
        return picked
