"""The program `gnt-job`; each verb is a module beside this one."""

from typing import Final, NoReturn

from cli.commands import CommandGroup, CommandVerb
from cli.program import run
from cli.remoteoptions import remote_options

VERBS: Final = {
    "submit": CommandVerb("cli.job.submit:submit", "Submit jobs from a JSON file."),
    "run": CommandVerb("cli.job.run:run_command", "Run a command as a job."),
    "list": CommandVerb("cli.job.list:list_jobs", "List jobs."),
    "list-fields": CommandVerb("cli.job.list:list_fields", "List the fields that a list can show."),
    "history": CommandVerb("cli.job.history:history", "Show what ran, and sum it up."),
    "info": CommandVerb("cli.job.info:info", "Show everything about jobs."),
    "why": CommandVerb("cli.job.why:why", "Explain why jobs wait, or how they ended."),
    "watch": CommandVerb("cli.job.watch:watch", "Follow jobs with their log and output."),
    "wait": CommandVerb("cli.job.watch:wait", "Wait until jobs have ended."),
    "output": CommandVerb("cli.job.watch:output", "Print what a job's commands printed."),
    "rerun": CommandVerb("cli.job.rerun:rerun", "Run jobs again that have ended."),
    "cancel": CommandVerb("cli.job.changing:cancel", "Cancel jobs."),
    "batch": CommandVerb("cli.job.batch:group", "Jobs that were submitted together, for several nodes or values."),
    "change-priority": CommandVerb("cli.job.changing:change_priority", "Make jobs more or less urgent."),
    "modify": CommandVerb(
        "cli.job.changing:modify", "Change terms of queued jobs, what they wait for, and limits of their commands."
    ),
    "hold": CommandVerb("cli.job.changing:hold", "Hold queued jobs, so that they do not start."),
    "release": CommandVerb("cli.job.changing:release", "Release held jobs."),
    "archive": CommandVerb("cli.job.changing:archive", "Archive ended jobs."),
    "autoarchive": CommandVerb("cli.job.changing:autoarchive", "Archive the jobs that ended long ago."),
}

group = CommandGroup(
    "gnt-job",
    VERBS,
    aliases={"show": "info"},
    help="Submit, watch and cancel jobs.",
    examples=(
        "gnt-job run --lock node/web1 --wait -- apt-get --yes upgrade",
        "gnt-job list --running",
        "gnt-job watch 27491",
        "gnt-job --remote https://gantry.example.com:5080 --token-file ~/.gantry-token list --running",
    ),
    shared=remote_options,
)


def main() -> NoReturn:
    run(group, "gnt-job")
