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
from cli.commands import Verb

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


@pytest.mark.parametrize(("group", "name", "verb"), ALL, ids=lambda value: value if isinstance(value, str) else "")
def test_a_verb_is_a_module_of_its_name_in_the_folder_of_its_group(group: str, name: str, verb: Verb) -> None:
    module, _, _ = verb.target.partition(":")

    if name.endswith("-tags"):
        # several programs share them
        assert module.startswith("cli.tags.")
        return
    if (group, name) in (("gantry", "cluster"), ("gantry", "schedule")):
        # a group; `gantry cluster` is more than all of `gnt-cluster`
        assert module == f"cli.gantry.{name}.main"
        return
    # `gantry job` is all of `gnt-job`
    assert module == (f"cli.{name}.main" if name in GROUPS else f"cli.{group}.{name.replace('-', '_')}")
    assert verb.load().name == (f"gnt-{name}" if name in GROUPS else name)
