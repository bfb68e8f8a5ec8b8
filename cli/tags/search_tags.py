"""`gnt-cluster search-tags`: find tags on all objects.

Source: opcodes.md 4, TAGS_SEARCH.
"""

from typing import Unpack

import click

from cli.clusterjobs import carry_out
from cli.commands import Command
from cli.context import wants_json
from cli.exitcodes import DONE, FAILED
from cli.screen import say, say_json
from cli.submitting.submitoptions import SubmitOptions, submit_options


@click.command(
    "search-tags",
    cls=Command,
    examples=("gnt-cluster search-tags '^site:'", "gnt-cluster search-tags --output json rack"),
)
@submit_options
@click.argument("pattern", metavar="PATTERN")
def search_tags(pattern: str, **options: Unpack[SubmitOptions]) -> int:
    """Find the tags that a regular expression matches, on the cluster and all its objects.

    Prints the path of each object with a tag: /nodes/web7 site:north. Ends with 1 if there is none.
    """
    told: list[int] = []
    op = {"OP_ID": "OP_TAGS_SEARCH", "pattern": pattern}
    code = carry_out(op, options, "gnt-cluster", "search-tags", lambda result: told.append(_tell(result)))
    return FAILED if code == DONE and told == [0] else code


def _tell(result: object) -> int:
    """Print what was found; return how many tags that are."""
    found = result if isinstance(result, list) else []
    if wants_json():
        say_json(found)
    else:
        for path, tag in found:
            say(f"{path} {tag}")
    return len(found)
