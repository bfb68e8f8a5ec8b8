"""Our programs with options of their own for all tests of a module.

host.run("gnt-group", "--root", root, "list")
"""

from collections.abc import Mapping
from pathlib import Path

from tests.cli.command import Ended, run


class ProgramHost:
    """Runs programs as `tests.cli.command` does."""

    def run(
        self,
        program: str,
        *words: object,
        stdin: str = "",
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> Ended:
        """Run a program to its end."""
        return run(program, *words, stdin=stdin, env=env, cwd=cwd)
