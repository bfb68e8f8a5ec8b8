"""Write the manual: `python -m cli.manual man FOLDER` for man, `python -m cli.manual reference FOLDER` for Sphinx."""

import os
import sys
from datetime import UTC, datetime
from pathlib import Path

import click

from cli.manual.manual import write_man, write_reference
from cli.program import run
from common.system.program import release


@click.group("manual")
def manual() -> None:
    """Write the pages of the manual."""


@manual.command("man")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
def man(folder: Path) -> None:
    """Write man pages into FOLDER: man1, man5, man7 and man8. $SOURCE_DATE_EPOCH is their date, else today."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    day = datetime.fromtimestamp(int(given), UTC) if given else datetime.now(UTC)
    write_man(folder, release(), day.strftime("%Y-%m-%d"))


@manual.command("reference")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
def reference(folder: Path) -> None:
    """Write the reference as Markdown into FOLDER, with index.md."""
    write_reference(folder)


if __name__ == "__main__":
    sys.exit(run(manual, "python -m cli.manual"))
