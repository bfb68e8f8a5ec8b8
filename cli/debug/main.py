"""The program `gnt-debug`; each verb is a module beside this one."""

from typing import Final, NoReturn

from cli.commands import CommandGroup, CommandVerb
from cli.program import run

VERBS: Final = {
    "confd": CommandVerb("cli.debug.nodes:confd", "Ask master candidates about the configuration."),
    "delay": CommandVerb("cli.debug.jobs:delay", "Submit a job that sleeps."),
    "locks": CommandVerb("cli.debug.locks:locks", "Show who holds which locks, and who waits for them."),
    "mond": CommandVerb("cli.debug.nodes:mond", "Show what a node measures of itself."),
    "simulate": CommandVerb("cli.debug.simulate:simulate", "Compare policies on a load, in virtual time."),
    "submit-job": CommandVerb("cli.debug.jobs:submit_job", "Submit jobs, one from each file."),
    "test-jobqueue": CommandVerb("cli.debug.jobs:test_jobqueue", "Check that the queue keeps its promises."),
    "violations": CommandVerb("cli.debug.wconfd:violations", "Changes of the configuration without locks."),
    "wconfd": CommandVerb("cli.debug.wconfd:wconfd", "Call a method of wconfd by hand."),
}

group = CommandGroup(
    "gnt-debug",
    VERBS,
    help="Debug and test the engine.",
    examples=(
        "gnt-debug locks",
        "gnt-debug delay 5",
        "gnt-debug mond web1",
        "gnt-debug violations",
    ),
)


def main() -> NoReturn:
    run(group, "gnt-debug")
