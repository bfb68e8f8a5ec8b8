"""The program `gnt-job`; each verb is a module beside this one."""

from typing import Final, NoReturn

from cli.commands import Group, Verb
from cli.program import run
from cli.remoteoptions import remote_options

VERBS: Final = {
    "submit": Verb("cli.job.submit:submit", "Submit jobs from a JSON file."),
    "run": Verb("cli.job.run:run_command", "Run a command as a job."),
    "list": Verb("cli.job.list:list_jobs", "List jobs."),
    "list-fields": Verb("cli.job.list:list_fields", "Tell the fields that a list can have."),
    "history": Verb("cli.job.history:history", "Show what ran, and sum it up."),
    "info": Verb("cli.job.info:info", "Tell everything about jobs."),
    "why": Verb("cli.job.why:why", "Tell why jobs do not run, or ended as they did."),
    "watch": Verb("cli.job.watch:watch", "Follow jobs with their log and output."),
    "wait": Verb("cli.job.watch:wait", "Wait until jobs have ended."),
    "output": Verb("cli.job.watch:output", "Print what a job's commands printed."),
    "rerun": Verb("cli.job.rerun:rerun", "Run jobs again that have ended."),
    "cancel": Verb("cli.job.changing:cancel", "Cancel jobs."),
    "batch": Verb("cli.job.batch:group", "Jobs that were submitted together, for several nodes or values."),
    "change-priority": Verb("cli.job.changing:change_priority", "Make jobs more or less urgent."),
    "modify": Verb(
        "cli.job.changing:modify", "Change terms of queued jobs, what they wait for, and limits of their commands."
    ),
    "hold": Verb("cli.job.changing:hold", "Keep queued jobs from beginning."),
    "release": Verb("cli.job.changing:release", "Let held jobs go."),
    "archive": Verb("cli.job.changing:archive", "Set ended jobs aside."),
    "autoarchive": Verb("cli.job.changing:autoarchive", "Set aside the jobs that ended long ago."),
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
        "gnt-job --remote https://gantry.example.com:5080 --token-file ~/.gantry-token list --running",
    ),
    shared=remote_options,
)


def main() -> NoReturn:
    run(group, "gnt-job")
