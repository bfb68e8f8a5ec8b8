"""`gantry schedule`: jobs that are submitted again and again."""

from typing import Final

from cli.commands import Group, Verb
from cli.remoteoptions import remote_options

VERBS: Final = {
    "add": Verb("cli.gantry.schedule.definition:add", "Add a schedule."),
    "list": Verb("cli.gantry.schedule.schedules:list_schedules", "List the schedules, with their next runs."),
    "info": Verb("cli.gantry.schedule.schedules:info", "Show schedules whole: words, next and last runs."),
    "modify": Verb("cli.gantry.schedule.definition:modify", "Change a schedule."),
    "pause": Verb("cli.gantry.schedule.schedules:pause", "Let schedules rest."),
    "resume": Verb("cli.gantry.schedule.schedules:resume", "Let paused schedules go on."),
    "run": Verb("cli.gantry.schedule.schedules:run_now", "Submit a schedule's job now, beside its times."),
    "remove": Verb("cli.gantry.schedule.schedules:remove", "Remove schedules; their jobs stay."),
}

group = Group(
    "schedule",
    VERBS,
    help="Jobs that are submitted again and again, by the words of cron or in intervals.",
    examples=(
        "gantry schedule add nightly --cron '0 2 * * *' --zone Europe/Athens -- backup --all",
        "gantry schedule add probe --every 5m --lock node/web1:shared -- probe web1",
        "gantry schedule list",
        "gantry schedule info nightly",
    ),
    shared=remote_options,
)
