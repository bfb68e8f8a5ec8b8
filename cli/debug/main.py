"""The program `gnt-debug`; each verb is a module beside this one."""

from typing import Final, NoReturn

from cli.commands import Group, Verb
from cli.program import run

VERBS: Final = {
    "confd": Verb("cli.debug.nodes:confd", "Ask master candidates about the configuration."),
    "delay": Verb("cli.debug.jobs:delay", "Submit a job that sleeps."),
    "locks": Verb("cli.debug.locks:locks", "Show who holds which locks, and who waits for them."),
    "mond": Verb("cli.debug.nodes:mond", "Show what a node measures of itself."),
    "simulate": Verb("cli.debug.simulate:simulate", "Compare policies on a load, in virtual time."),
    "submit-job": Verb("cli.debug.jobs:submit_job", "Submit jobs, one from each file."),
    "test-jobqueue": Verb("cli.debug.jobs:test_jobqueue", "Check that the queue keeps its promises."),
    "violations": Verb("cli.debug.wconfd:violations", "Changes of the configuration without locks."),
    "wconfd": Verb("cli.debug.wconfd:wconfd", "Call a method of wconfd by hand."),
}

group = Group(
    "gnt-debug",
    VERBS,
    help="Look into the engine, and try it.",
    examples=(
        "gnt-debug locks",
        "gnt-debug delay 5",
        "gnt-debug mond web1",
        "gnt-debug violations",
    ),
)


def main() -> NoReturn:
    run(group, "gnt-debug")
