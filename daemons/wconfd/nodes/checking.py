"""Whether a node has the contents that it should have, by the digests that its daemon tells.

Source: noded.md 6; DESIGN section 12.
"""

import hashlib
from collections.abc import Mapping
from typing import Final, assert_never

from common.errors import GantryError
from common.system.inthread import in_thread
from common.wire import structure
from daemons.wconfd.nodes.contents import Contents
from protocol.noded.clients.client import NodeClient
from protocol.noded.clients.nodes import NodeAddress
from protocol.noded.clients.outcomes import Failed, Replied, Skipped
from protocol.noded.verifying import Check, NodeVerify
from protocol.wconfd.copies import ConfigVerdict

# seconds that a node has for its reply
LIMIT_S: Final = 15.0
# names of files that are told
_MOST_NAMES: Final = 5


async def compare(
    client: NodeClient, node: NodeAddress, contents: Contents, now: float, limit_s: float = LIMIT_S
) -> ConfigVerdict:
    """Ask a node for its files. Args: now: seconds since 1970."""
    wanted = await in_thread(_digests, contents)
    call = NodeVerify({Check.FILES.value: list(wanted)}, "", {})
    outcome = (await client.call_nodes([node], call, limit_s, even_paused=True))[node.name]
    match outcome:
        case Replied():
            return _judge(node, wanted, outcome.value.get(Check.FILES.value), now)
        case Failed():
            return ConfigVerdict(node.name, failure=outcome.text)
        case Skipped():
            return ConfigVerdict(node.name, failure=f"{node} is offline")
        case _:
            assert_never(outcome)


def _judge(node: NodeAddress, wanted: Mapping[str, str], told: object, now: float) -> ConfigVerdict:
    try:
        found = structure(told, dict[str, str], Check.FILES.value)
    except GantryError as error:
        return ConfigVerdict(node.name, failure=f"{node} does not tell which files it has: {error.message}")
    names = sorted(name.rpartition("/")[2] for name, digest in wanted.items() if found.get(name) != digest)
    return ConfigVerdict(node.name, now, len(names), tuple(names[:_MOST_NAMES]))


def _digests(contents: Contents) -> Mapping[str, str]:
    """By names on the wire."""
    return {
        name: hashlib.sha1(content, usedforsecurity=False).hexdigest()
        for part in contents.values()
        for name, content in part.files.items()
    }
