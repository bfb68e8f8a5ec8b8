"""Each verb has a file of its name."""

import pytest

import cli.cluster.main
import cli.debug.main
import cli.filter.main
import cli.gantry.cluster.main
import cli.gantry.main
import cli.gantry.token
import cli.gantry.user
import cli.group.main
import cli.job.batch
import cli.job.main
import cli.network.main
import cli.node.main
from cli.commands import CommandVerb

GROUPS = {
    "cluster": cli.cluster.main.VERBS,
    "debug": cli.debug.main.VERBS,
    "filter": cli.filter.main.VERBS,
    "gantry": cli.gantry.main.VERBS,
    "gantry.cluster": cli.gantry.cluster.main.VERBS,
    "gantry.access.tokens": cli.gantry.token.VERBS,
    "gantry.access.users": cli.gantry.user.VERBS,
    "group": cli.group.main.VERBS,
    "job": cli.job.main.VERBS,
    "job.batches": cli.job.batch.VERBS,
    "network": cli.network.main.VERBS,
    "node": cli.node.main.VERBS,
}
ALL = [(group, name, verb) for group, verbs in GROUPS.items() for name, verb in verbs.items()]


# what several programs have, or do
SHARED = {
    ("gantry", "completion"): "cli.completion",
    ("gantry", "locks"): "cli.debug.locks",
    ("gantry.cluster", "run-as-submitter"): "cli.cluster.init",
}


@pytest.mark.parametrize(("group", "name", "verb"), ALL, ids=lambda value: value if isinstance(value, str) else "")
def test_a_verb_lies_in_the_folder_of_its_program(group: str, name: str, verb: CommandVerb) -> None:
    module, _, _ = verb.target.partition(":")
    program = group.partition(".")[0]

    # the verbs on tags are those of several programs, `gantry job` is all of `gnt-job`
    if name.endswith("-tags"):
        assert module == "cli.tags"
    elif name in GROUPS and (group, name) != ("gantry", "cluster"):
        assert module == f"cli.{name}.main"
    elif (group, name) in SHARED:
        assert module == SHARED[group, name]
    else:
        assert module.startswith(f"cli.{program}.")
    assert verb.load().name == (f"gnt-{name}" if module == f"cli.{name}.main" else name)
