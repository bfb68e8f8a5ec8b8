"""The verbs on tags, for each kind of objects that has them."""

import os
import sys
from collections.abc import Sequence
from typing import IO, Final, NamedTuple, TextIO

import attrs
import click

from cli.commands import Command
from cli.connection import ask_luxid
from cli.context import wants_json
from cli.exitcodes import DONE, FAILED
from cli.options import Complete, F, complete_group, complete_network, complete_node
from cli.screen import say, say_json
from cli.submitting.options import SubmissionOptions, submit_options
from cli.submitting.submission import carry_out
from common.objects.kinds import TagKind
from protocol.luxi.queries import QueryTags

# Make the verbs on the tags of one kind of objects.
#
# Source: opcodes.md 4, TAGS_SET and TAGS_DEL; luxid.md 2.2, QueryTags.


_RULES: Final = "A tag has up to 128 letters, digits and .+*/:@-_; an object has up to 4096."


@attrs.frozen
class TaggedKind:
    """A kind of objects with tags, as a program shows it."""

    kind: TagKind
    program: str
    # object in a sentence
    title: str
    # argument that names the object, and an example; none: there is only one object
    metavar: str = ""
    example: str = ""
    complete: Complete | None = None

    def named(self, function: F) -> F:
        """Add the argument `name` that names the object, if there are several."""
        if not self.metavar:
            return function
        return click.argument("name", metavar=self.metavar, shell_complete=self.complete)(function)


class TagCommands(NamedTuple):
    list_tags: click.Command
    add_tags: click.Command
    remove_tags: click.Command


def tag_commands(tagged: TaggedKind) -> TagCommands:
    """The verbs `list-tags`, `add-tags` and `remove-tags` of a program."""
    waits = "Waits for the job, except with --submit."
    return TagCommands(
        _list_command(tagged),
        _change_command(
            tagged,
            "add-tags",
            "OP_TAGS_SET",
            ("site:north disk:ssd", "--from tags.txt"),
            f"Add tags to {tagged.title}.\n\n{_RULES} {waits}",
        ),
        _change_command(
            tagged,
            "remove-tags",
            "OP_TAGS_DEL",
            ("disk:ssd",),
            f"Remove tags from {tagged.title}; it must have all of them.\n\n{waits}",
        ),
    )


def _list_command(tagged: TaggedKind) -> click.Command:
    command = f"{tagged.program} list-tags {tagged.example}".rstrip()

    @click.command(
        "list-tags",
        cls=Command,
        examples=(command, f"{command} --output json"),
        help=f"Tell the tags of {tagged.title}.",
    )
    @tagged.named
    def list_tags(name: str = "") -> int:
        told: tuple[str, ...] = ask_luxid(QueryTags(tagged.kind, name))
        tags = sorted(told)
        if wants_json():
            say_json(tags)
        else:
            for tag in tags:
                say(tag)
        return DONE

    return list_tags


def _change_command(tagged: TaggedKind, verb: str, op_id: str, examples: Sequence[str], help: str) -> click.Command:
    @click.command(
        verb,
        cls=Command,
        examples=[f"{tagged.program} {verb} {tagged.example}".rstrip() + f" {example}" for example in examples],
        help=help,
    )
    @_from_option
    @submit_options
    @tagged.named
    @click.argument("tags", metavar="[TAG]...", nargs=-1)
    def change(tags: Sequence[str], source: TextIO | None, submission: SubmissionOptions, name: str = "") -> int:
        op = {"OP_ID": op_id, "kind": tagged.kind.value, "name": name or None, "tags": _all_tags(tags, source)}
        return carry_out(op, submission, tagged.program, verb)

    return change


class _TagsFile(click.File):
    def convert(
        self, value: str | os.PathLike[str] | IO[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> IO[str]:
        if value == "-" and sys.stdin is None:
            self.fail("standard input is closed; name a file, or pipe the tags in", param, ctx)
        return super().convert(value, param, ctx)


def _from_option(function: F) -> F:
    kind = _TagsFile(encoding="utf-8", errors="replace")
    return click.option(
        "--from", "source", type=kind, help="A file with further tags, one a line; - is standard input."
    )(function)


def _all_tags(words: Sequence[str], source: TextIO | None) -> Sequence[str]:
    """The tags of the command line, and those of the file; blank lines do not count."""
    found = [*words, *(line.strip() for line in source or () if line.strip())]
    if not found:
        raise click.UsageError("no tags are named; add them to the command, or name a file: --from FILE")
    return found


# The verbs on the tags of the cluster.


list_cluster_tags, add_cluster_tags, remove_cluster_tags = tag_commands(
    TaggedKind(TagKind.CLUSTER, "gnt-cluster", "the cluster")
)


# The verbs on the tags of node groups.


list_group_tags, add_group_tags, remove_group_tags = tag_commands(
    TaggedKind(TagKind.NODEGROUP, "gnt-group", "GROUP", "GROUP", "rack1", complete_group)
)


# The verbs on the tags of networks.


list_network_tags, add_network_tags, remove_network_tags = tag_commands(
    TaggedKind(TagKind.NETWORK, "gnt-network", "NETWORK", "NETWORK", "front", complete_network)
)


# The verbs on the tags of nodes.


list_node_tags, add_node_tags, remove_node_tags = tag_commands(
    TaggedKind(TagKind.NODE, "gnt-node", "NODE", "NODE", "web7", complete_node)
)


# `gnt-cluster search-tags`: find tags on all objects.
#
# Source: opcodes.md 4, TAGS_SEARCH.


@click.command(
    "search-tags",
    cls=Command,
    examples=("gnt-cluster search-tags '^site:'", "gnt-cluster search-tags --output json rack"),
)
@submit_options
@click.argument("pattern", metavar="PATTERN")
def search_tags(pattern: str, submission: SubmissionOptions) -> int:
    """Find the tags that a regular expression matches, on the cluster and all its objects.

    Prints the path of each object with a tag: /nodes/web7 site:north. Ends with 1 if there is none.
    """
    told: list[int] = []
    op = {"OP_ID": "OP_TAGS_SEARCH", "pattern": pattern}
    code = carry_out(op, submission, "gnt-cluster", "search-tags", lambda result: told.append(_tell(result)))
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
