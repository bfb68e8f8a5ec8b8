"""gnt-job within this process, on a cluster named by options."""

import attrs
import pytest

from cli.job.main import group
from cli.program import exit_code
from tests.cli.command import Ended, normalised

Capture = pytest.CaptureFixture[str]


@attrs.frozen
class Place:
    """A cluster, named by options; without any, by variables."""

    words: tuple[str, ...] = ()

    def run(self, capsys: Capture, *words: object) -> Ended:
        """Run gnt-job."""
        capsys.readouterr()
        code = exit_code(group, "gnt-job", [*self.words, *map(str, words)])
        captured = capsys.readouterr()
        return Ended(code, captured.out, captured.err)

    def normal(self, ended: Ended) -> Ended:
        """Without what differs from run to run, and without the words that name the cluster."""
        hint = f" {' '.join(self.words)}"
        return Ended(ended.code, normalised(ended.out), normalised(ended.err.replace(hint, "")))
