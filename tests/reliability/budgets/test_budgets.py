"""A job that does nothing under one lock, and a command, have budgets: a feature that spends more says here why.

`ARCHITECTURE.md` names what each durable operation is for; DESIGN section 9 has the goals.
"""

import json
from collections.abc import Mapping

from tests.reliability.program import run_program

# the three fsyncs of a submission (serial, job file, folder), and the folder's when the job has ended; two of the
# process for `running` and one for the end; a line for the lock (that for its release lags)
DURABLE = {"luxid": 4, "job": 3, "wconfd": 1}
# whole in the worst case: the new file and the new journal, two last lines of the old one, the folder twice
WHOLE = 6
SENT = {"luxid": 7, "job": 3, "wconfd": 4}
OPENED = {"luxid": 8, "job": 6, "wconfd": 4}


# a command takes so long that its beginning is told apart from its end, which syncs the folder once more; it costs two
# processes more, its supervisor and its program; it opens the run folder, which keeps sweeps of
# groups away; and of wconfd's messages two do not come together any more, as the locks are held longer
DURABLE_OF_COMMAND = {**DURABLE, "luxid": 5}
BORN = {"job": 1}
BORN_OF_COMMAND = {"job": 1, "command": 2}
SENT_OF_COMMAND = {**SENT, "wconfd": 5}
OPENED_OF_COMMAND = {**OPENED, "job": 7}
Budget = Mapping[str, int]


def test_a_job_that_does_nothing_stays_within_its_budget() -> None:
    check({"durable": DURABLE, "sent": SENT, "opened": OPENED, "born": BORN})


def test_a_command_on_the_master_stays_within_its_budget() -> None:
    """Its output has no promise."""
    budgets = {
        "durable": DURABLE_OF_COMMAND,
        "sent": SENT_OF_COMMAND,
        "opened": OPENED_OF_COMMAND,
        "born": BORN_OF_COMMAND,
    }
    check(budgets, "--command")


def check(budgets: Mapping[str, Budget], *options: str) -> None:
    counts = json.loads(run_program("tests.reliability.budgets.counts", "5", *options))

    spent = {role: {kind: of.get(kind, 0) for kind in budgets} for role, of in counts.items()}
    # a job that costs less has earned a smaller budget
    assert {role: of["durable"] for role, of in spent.items() if of["durable"]}.keys() == DURABLE.keys()
    for kind, budget in budgets.items():
        over = {role: of[kind] for role, of in spent.items() if of[kind] > budget.get(role, 0)}
        assert over == {}, f"{kind}: {over} of a job; the budget is {budget}"
    assert counts["wconfd"].get("whole", 0) <= WHOLE
