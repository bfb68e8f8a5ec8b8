"""The verbs on tags for the list of a program's verbs; nothing else is imported before one is used.

VERBS = {..., **tag_verbs("cli.tags.ofnode")}
"""

from collections.abc import Mapping

from cli.commands import Verb


def tag_verbs(module: str) -> Mapping[str, Verb]:
    """`list-tags`, `add-tags` and `remove-tags`. Args: module: name of one that has them for a kind of objects."""
    return {
        "list-tags": Verb(f"{module}:list_tags", "Tell the tags."),
        "add-tags": Verb(f"{module}:add_tags", "Add tags."),
        "remove-tags": Verb(f"{module}:remove_tags", "Remove tags."),
    }
