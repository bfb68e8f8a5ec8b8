"""Scripts of calls that a real Ganeti has carried out, carried out by our programs on a cluster like the recorded one.

Every call must end as Ganeti's did, but for what `comparing` and `differences` name.
"""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.cli.ganetiverbs.comparing import Meaning, as_ours, meaning
from tests.cli.ganetiverbs.differences import BY_SCRIPT
from tests.cli.ganetiverbs.recordedcalls import SCRIPTS, RecordedCall, recorded_calls
from tests.cli.programhost import ProgramHost
from tests.support.cluster import Cluster

# the recorded cluster has three candidates, and no copies are made here
SETTINGS = "[ganeti]\nallow_uncopied = true\n"


def carried_out(calls: Sequence[RecordedCall], script: str, root: Path) -> list[Meaning]:
    """The ends of our programs' calls, in their order."""
    with Cluster(root, settings=SETTINGS) as cluster, ProgramHost() as host:
        cluster.paths.config_data.write_bytes((SCRIPTS / script / "config.data").read_bytes())
        cluster.start()
        ends = []
        for call in calls:
            ended = host.run(call.program, call.words[0], "--root", root, *call.words[1:], stdin=call.stdin)
            ends.append(meaning(ended))
            if told := re.fullmatch(r"JobID: (\d+)\n", ended.err):
                # Ganeti's job had ended before the next call
                cluster.wait(int(told[1]))
        return ends


@pytest.mark.parametrize("script", sorted(BY_SCRIPT))
def test_every_call_ends_as_ganetis(script: str, tmp_path: Path) -> None:
    calls = recorded_calls(script)
    named = BY_SCRIPT[script]
    assert set(named) <= {call.name for call in calls}

    ends = carried_out(calls, script, tmp_path)

    wanted = [as_ours(call.ended) for call in calls]
    wanted = [named[call.name].of(end) if call.name in named else end for call, end in zip(calls, wanted, strict=True)]
    found = {
        f"{number}: {call.name}": (ours, theirs)
        for number, (call, ours, theirs) in enumerate(zip(calls, ends, wanted, strict=True))
        if ours != theirs
    }
    assert found == {}, "\n\n".join(
        f"{line}\nours:   {ours}\nwanted: {theirs}" for line, (ours, theirs) in found.items()
    )


def test_every_recorded_script_is_carried_out() -> None:
    assert {each.name for each in SCRIPTS.iterdir()} == set(BY_SCRIPT)
