"""The program `gnt-job`; each verb is a module of `cli.jobs`."""

from typing import Final, NoReturn

from cli.commands import Group, Verb
from cli.run import run

VERBS: Final = {
    "submit": Verb("cli.jobs.submit:submit", "Submit jobs from a JSON file."),
    "run": Verb("cli.jobs.run:run_command", "Run a command as a job."),
    "list": Verb("cli.jobs.list:list_jobs", "List jobs."),
    "list-fields": Verb("cli.jobs.list_fields:list_fields", "Tell the fields that a list can have."),
    "info": Verb("cli.jobs.info:info", "Tell everything about jobs."),
    "why": Verb("cli.jobs.why:why", "Tell why jobs do not run, or ended as they did."),
    "watch": Verb("cli.jobs.watch:watch", "Follow jobs with their log and output."),
    "wait": Verb("cli.jobs.wait:wait", "Wait until jobs have ended."),
    "output": Verb("cli.jobs.output:output", "Print what a job's commands printed."),
    "cancel": Verb("cli.jobs.cancel:cancel", "Cancel jobs."),
    "change-priority": Verb("cli.jobs.change_priority:change_priority", "Make jobs more or less urgent."),
    "archive": Verb("cli.jobs.archive:archive", "Set ended jobs aside."),
    "autoarchive": Verb("cli.jobs.autoarchive:autoarchive", "Set aside the jobs that ended long ago."),
}

group = Group(
    "gnt-job",
    VERBS,
    aliases={"show": "info"},
    help="Submit, watch and cancel jobs.",
    examples=(
        "gnt-job run --lock node/web1 --wait -- apt-get --yes upgrade",
        "gnt-job list --running",
        "gnt-job watch 27491",
    ),
)


def main() -> NoReturn:
    run(group, "gnt-job")
