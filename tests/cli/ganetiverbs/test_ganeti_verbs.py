"""Scripts of calls that a real Ganeti has carried out, carried out by our programs on a cluster like the recorded one.

Every call must end as Ganeti's did, but for what `comparing` and `differences` name.
"""

import difflib
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.cli.command import run
from tests.cli.ganetiverbs.comparing import Meaning, as_ours, configuration, meaning
from tests.cli.ganetiverbs.differences import BY_SCRIPT
from tests.cli.ganetiverbs.recordedcalls import CONFIGURATION, SCRIPTS, RecordedCall, recorded_calls
from tests.support.cluster import Cluster

# the recorded cluster has three candidates, and no copies are made here
SETTINGS = "[ganeti]\nallow_uncopied = true\n"


def carried_out(calls: Sequence[RecordedCall], script: str, root: Path) -> list[Meaning]:
    """The ends of our programs' calls, in their order."""
    with Cluster(root, settings=SETTINGS) as cluster:
        cluster.paths.config_data.write_bytes((SCRIPTS / script / "config.data").read_bytes())
        cluster.start()
        ends = []
        for call in calls:
            if call.line == CONFIGURATION:
                ends.append(configuration(cluster.paths.config_data.read_text()))
                continue
            ended = run(call.program, call.words[0], "--root", root, *call.words[1:], stdin=call.stdin)
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

    wanted = [configuration(call.ended.out) if call.line == CONFIGURATION else as_ours(call.ended) for call in calls]
    wanted = [named[call.name].of(end) if call.name in named else end for call, end in zip(calls, wanted, strict=True)]
    found = {
        f"{number}: {call.name}": (ours, theirs)
        for number, (call, ours, theirs) in enumerate(zip(calls, ends, wanted, strict=True))
        if ours != theirs
    }
    assert found == {}, "\n\n".join(f"{name}\n{_shown(*ends)}" for name, ends in found.items())


def _shown(ours: Meaning, wanted: Meaning) -> str:
    """What differs, as lines."""
    before, after = (
        [f"code {end.code}", f"standard error: {end.err}", *end.out.splitlines()] for end in (wanted, ours)
    )
    return "\n".join(difflib.unified_diff(before, after, "wanted", "ours", n=1, lineterm=""))


def test_every_recorded_script_is_carried_out() -> None:
    assert {each.name for each in SCRIPTS.iterdir()} == set(BY_SCRIPT)
