"""Every procedure of Ganeti's node daemon is in the table or refused with a reason (noded.md 5)."""

from pathlib import Path

import trio

from common.objects.initial import NewUuids, initial_config
from common.objects.kinds import GroupUuid, NodeUuid
from common.objects.ssconf import ssconf_values
from common.paths import Paths
from common.settings import Settings
from daemons.noded.commands.nodecommands import NodeCommands
from daemons.noded.epochs import Epochs
from daemons.noded.files.places import SSCONF_KEYS
from daemons.noded.files.queuefiles import QueueFileCopies
from daemons.noded.main import make_handlers
from daemons.noded.rpc import rows
from protocol.noded.procedures import REFUSED, call_classes
from protocol.noded.statefiles import PREFIX

# known by their class, and carried out by no handler yet
NOT_YET = {
    "etc_hosts_modify",
    "node_activate_master_ip",
    "node_change_master_netmask",
    "node_deactivate_master_ip",
    "restricted_command",
}


def test_each_call_has_one_row_or_is_one_of_those_to_come(tmp_path: Path) -> None:
    settings = Settings(Paths.under_root(tmp_path))
    queue, epochs = QueueFileCopies(settings.paths), Epochs(settings.paths.epoch_file)
    commands = NodeCommands(settings)
    names = [row.call_class.METHOD for row in rows(make_handlers(settings, queue, epochs, trio.Event(), commands))]

    assert len(names) == len(set(names))
    assert {kind.METHOD for kind in call_classes()} - set(names) == NOT_YET
    assert not set(names) & set(REFUSED)
    assert len({name for name in [*names, *NOT_YET, *REFUSED] if not name.startswith(PREFIX)}) == 109


def test_each_key_of_ssconf_that_a_master_has_may_be_written() -> None:
    uuids = NewUuids(cluster="c", node=NodeUuid("n"), group=GroupUuid("g"))
    config = initial_config("lab", "node1", now=1.0, uuids=uuids)

    assert set(ssconf_values(config)) == SSCONF_KEYS
