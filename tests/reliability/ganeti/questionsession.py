"""On the node: our library asks a Ganeti's confd and ours the same, right and wrong; the replies must be equal.

python -m tests.reliability.ganeti.questionsession THEIRS OURS          # ports
"""

import json
import socket
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

from protocol.confd.client import ask_confd
from protocol.confd.gathering import ConfdPeer
from protocol.confd.questions import Question, seal, unseal

FOLDER: Final = Path("/var/lib/ganeti")
HOST: Final = "127.0.0.1"
NODE, MASTER_IP = "node1.rg.test", "10.77.0.1"
SILENCE_S: Final = 0.3
# answers whose order says nothing
UNORDERED: Final = (4, 5, 6, 8)


def questions() -> Iterator[tuple[object, object]]:
    """Kinds and arguments, right ones and wrong ones."""
    config = json.loads((FOLDER / "config.data").read_text())
    (node,) = config["nodes"]
    instances = sorted(config["instances"])
    words = [None, "", NODE, "node1", "node1.rg", "NODE1.rg.test", "node", node, "inst1.rg.test", "inst1", "inst", "x"]
    dictionaries: list[dict[str, object]] = [
        {},
        {"1": "198.51.100.1"},
        {"0": "br7", "1": "198.51.100.1"},
        {"0": "nosuch", "1": "198.51.100.1"},
        {"0": "br7", "2": ["198.51.100.2", "198.51.100.9"]},
        {"1": "192.0.2.77", "2": ["198.51.100.1"]},
        {"2": ["192.0.2.77", "198.51.100.1"]},
        {"0": None, "2": ["192.0.2.77"]},
        {"3": [2, 1, 0]},
        {"3": []},
        {"9": "unknown key"},
        {"1": None},
    ]
    links = ["br7", "xen-br0", "br0"]
    pointers = ["/version", "/cluster", f"/nodes/{node}/name", "/cluster/enabled_hypervisors/0", "/cluster/tags", "/"]
    pointers += ["/cluster/enabled_hypervisors/7", "/cluster/enabled_hypervisors/-", "/serial_no", "/disks"]
    pointers += [f"/instances/{uuid}" for uuid in instances]
    for kind in range(12):
        for argument in (*words, *instances, *dictionaries, *links, *pointers):
            yield kind, argument
    for argument in ([], 5, True, {"1": 5}, {"2": "x"}, {"3": ["x"]}, {"3": [7]}, {"0": 1}):
        yield 2, argument
    unknown: tuple[object, ...] = (-1, 12, "0", None, True)
    yield from ((kind, None) for kind in unknown)


def ask(port: int, key: bytes, kind: object, argument: object, number: int) -> Any:
    """The reply as a value; None: silence."""
    text = json.dumps({"protocol": 1, "type": kind, "query": argument, "rsalt": f"r{number}"})
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(SILENCE_S)
        sock.sendto(seal(key, text, str(int(time.time()))), (HOST, port))
        try:
            signed = unseal(key, sock.recv(65536))
        except TimeoutError:
            return None
    assert signed is not None
    assert signed.salt == f"r{number}"
    # Ganeti may change the last digit of a fraction when it reads its file
    return json.loads(signed.text, parse_float=lambda digits: round(float(digits), 5))


def comparable(kind: object, reply: Any) -> Any:
    if reply is None or kind not in UNORDERED or not isinstance(reply["answer"], list):
        return reply
    texts = partial(json.dumps, sort_keys=True)
    ordered = [sorted(map(texts, part)) if isinstance(part, list) else part for part in reply["answer"]]
    return {**reply, "answer": ordered if kind == Question.NODE_INSTANCES else sorted(ordered)}


def main(theirs: int, ours: int) -> int:
    key = (FOLDER / "hmac.key").read_bytes()
    counts = {"same": 0, "other words": 0, "differs": 0}
    for number, (kind, argument) in enumerate(questions()):
        replies = [comparable(kind, ask(port, key, kind, argument, number)) for port in (theirs, ours)]
        verdict = verdict_of(*replies)
        counts[verdict] += 1
        if verdict != "same":
            print(f"{verdict}: type {kind} {json.dumps(argument)}\n  Ganeti: {replies[0]}\n  Gantry: {replies[1]}")
    print(counts)
    peers = [ConfdPeer(HOST, theirs), ConfdPeer(HOST, ours)]
    both = ask_confd(key, peers, Question.MASTER, asks_all=True)
    is_asked = both.answer() == NODE and len(both.replies) == 2 and both.is_consistent
    print("our client asks both:", "same" if is_asked else both)
    return 0 if is_asked and not counts["differs"] else 1


def verdict_of(theirs: Any, ours: Any) -> str:
    if theirs == ours:
        return "same"
    if theirs is None or ours is None:
        return "differs"
    # reasons of errors are texts for people
    are_texts = isinstance(theirs["answer"], str) and isinstance(ours["answer"], str)
    is_error = theirs["status"] == ours["status"] == 1
    return "other words" if is_error and are_texts else "differs"


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
