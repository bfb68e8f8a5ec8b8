"""Readable stories of the queue: each `tests/transcripts/queue*.txt` is a list of commands with what follows from them.

A command stands before `----`; under it what the core decides at once, then all jobs by where they stand: the ready
ones in the order of starts, in brackets if a filter or a limit keeps them. `tests/support/stories/queuestory.py` lists
the commands. Three jobs may run at once; a tick is 10 s, and a weight has faded after 10 ticks.
"""

from pathlib import Path

import pytest

from tests.support.stories.queuestory import QueueStory
from tests.support.stories.transcripts import TRANSCRIPTS, steps


@pytest.mark.parametrize("path", sorted(TRANSCRIPTS.glob("queue*.txt")), ids=lambda path: path.stem)
def test_the_queue_behaves_as_the_transcript_says(path: Path) -> None:
    story = QueueStory()

    for command, expected in steps(path.read_text("utf-8")):
        assert story.tell(command) == expected, f"{path.name}: after {command!r}"


def test_there_is_a_transcript_of_each_subject() -> None:
    subjects = {
        "submission",
        "deferred",
        "dependencies",
        "filters",
        "limits",
        "weights",
        "pause",
        "cancel",
        "death",
        "restart",
    }
    assert {path.stem.removeprefix("queue_") for path in TRANSCRIPTS.glob("queue*.txt")} >= subjects
