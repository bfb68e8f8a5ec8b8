"""A job that does nothing under one lock has a budget: a feature that spends more says so here, with its reason.

`ARCHITECTURE.md` names what each durable operation is for; DESIGN section 9 has the goals.
"""

import json

from tests.reliability.program import run_program

# the three fsyncs of a submission (serial, job file, folder), two that record the process, and the folder's for the
# renames of the process; its own two for `running` and two for the end; a line for the lock and one for its release
DURABLE = {"luxid": 7, "job": 4, "wconfd": 2}
# whole in the worst case: the new file and the new journal, a last line of the old one, the folder twice
WHOLE = 5
SENT = {"luxid": 8, "job": 3, "wconfd": 4, "forkserver": 2}
OPENED = {"luxid": 10, "job": 7, "wconfd": 4}


def test_a_job_that_does_nothing_stays_within_its_budget() -> None:
    counts = json.loads(run_program("tests.reliability.budgets.counts", "5"))

    spent = {role: {kind: of.get(kind, 0) for kind in ("durable", "sent", "opened")} for role, of in counts.items()}
    # a job that costs less has earned a smaller budget
    assert {role: of["durable"] for role, of in spent.items() if of["durable"]}.keys() == DURABLE.keys()
    for kind, budget in (("durable", DURABLE), ("sent", SENT), ("opened", OPENED)):
        over = {role: of[kind] for role, of in spent.items() if of[kind] > budget.get(role, 0)}
        assert over == {}, f"{kind}: {over} of a job; the budget is {budget}"
    assert counts["wconfd"].get("whole", 0) <= WHOLE
