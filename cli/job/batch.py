"""`gnt-job batch`; each verb is a module in `cli.job.batches`."""

from typing import Final

from cli.commands import Group, Verb

VERBS: Final = {
    "list": Verb("cli.job.batches.list:list_batches", "List batches."),
    "info": Verb("cli.job.batches.info:info", "Tell how batches stand, and which of their jobs failed or run."),
}

group = Group(
    "batch",
    VERBS,
    help=(
        "Jobs that were submitted together, for several nodes or values. gnt-job list, watch, wait, cancel, output "
        "and others take --batch ID."
    ),
    examples=("gnt-job batch list", "gnt-job batch info b5f2c8a10b4d", "gnt-job cancel --batch b5f2c8a10b4d"),
)
