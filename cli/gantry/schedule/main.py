"""`gantry schedule`: jobs that are submitted again and again."""

from typing import Final

from cli.commands import CommandGroup, CommandVerb
from cli.remoteoptions import remote_options

VERBS: Final = {
    "add": CommandVerb("cli.gantry.schedule.definition:add", "Add a schedule."),
    "list": CommandVerb("cli.gantry.schedule.schedules:list_schedules", "List the schedules, with their next runs."),
    "info": CommandVerb("cli.gantry.schedule.schedules:info", "Show all about schedules, with next and last runs."),
    "modify": CommandVerb("cli.gantry.schedule.definition:modify", "Change a schedule."),
    "pause": CommandVerb("cli.gantry.schedule.schedules:pause", "Pause schedules."),
    "resume": CommandVerb("cli.gantry.schedule.schedules:resume", "Resume paused schedules."),
    "run": CommandVerb("cli.gantry.schedule.schedules:run_now", "Submit a schedule's job now, outside its times."),
    "remove": CommandVerb("cli.gantry.schedule.schedules:remove", "Remove schedules; their jobs stay."),
}

group = CommandGroup(
    "schedule",
    VERBS,
    help="Jobs that are submitted again and again, by the fields of cron or at intervals.",
    examples=(
        "gantry schedule add nightly --cron '0 2 * * *' --zone Europe/Athens -- backup --all",
        "gantry schedule add probe --every 5m --lock node/web1:shared -- probe web1",
        "gantry schedule list",
        "gantry schedule info nightly",
    ),
    shared=remote_options,
)
