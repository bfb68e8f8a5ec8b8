"""confd as a process: it answers whoever has the key, keeps up with its files, and tells nobody else anything."""

import os
import re
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from protocol.confd.questions import (
    MAGIC,
    Argument,
    ConfdRequest,
    Question,
    Reply,
    ReplyStatus,
    read_reply,
    seal,
    unseal,
)
from tests.support.machines.confdpeers import ConfdCluster
from tests.support.machines.confds import KEY
from tests.support.machines.nodes import HOST
from tests.support.wait import wait_until

FLOOD = 10_000
# time after which a datagram counts as lost
LOST_S = 0.5


class Asking:
    """A client of one confd."""

    def __init__(self, port: int) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.settimeout(LOST_S)
        self.is_patient = True
        self.socket.connect((HOST, port))
        self._count = 0

    def ask(self, question: Question, argument: Argument = None, *, key: bytes = KEY) -> Reply:
        """Ask until there is a reply: datagrams may be lost."""
        self._count += 1
        rsalt = f"r{self._count}"
        while True:
            self.socket.send(seal(key, ConfdRequest(question, rsalt, argument).to_text(), str(int(time.time()))))
            try:
                signed = unseal(key, self.socket.recv(65536))
            except TimeoutError:
                if self.is_patient:
                    continue
                raise
            assert signed is not None
            if signed.salt == rsalt:
                reply = read_reply(signed.text)
                assert reply is not None
                return reply


class Asked(ConfdCluster):
    """A running confd, and who asks it."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.start()
        self.asking = Asking(self.peer.port)

    def ask(self, question: Question) -> Reply:
        return self.asking.ask(question)

    def wait_for(self, wanted: Reply, question: Question = Question.PING) -> None:
        wait_until(lambda: self.ask(question) == wanted, what=f"{question.name} is answered {wanted}")


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    made = Asked(tmp_path_factory.mktemp("confd"))
    with made, made.asking.socket:
        yield made


def test_a_changed_configuration_is_answered_from_at_once(asked: Asked) -> None:
    assert asked.ask(Question.MASTER) == Reply(ReplyStatus.OK, "node1.test", 7)

    asked.document["cluster"] |= {"master_node": "uuid-node2.test", "serial_no": 8}
    asked.write()

    asked.wait_for(Reply(ReplyStatus.OK, "node2.test", 8), Question.MASTER)


def test_a_damaged_configuration_takes_the_place_of_the_good_one(asked: Asked) -> None:
    asked.put(asked.paths.config_data, b"{")
    wait_until(lambda: asked.ask(Question.MASTER).status is ReplyStatus.ERROR, what="the damage is told")
    assert "not JSON" in str(asked.ask(Question.PING).answer)

    asked.paths.config_data.unlink()
    wait_until(lambda: "no master candidate" in str(asked.ask(Question.PING).answer), what="there is none")

    asked.write()
    asked.wait_for(Reply(ReplyStatus.OK, 3000000))


def test_a_renewed_key_is_taken_without_a_restart(asked: Asked) -> None:
    new = b"another\n"
    asked.write_key(new)
    asked.asking.is_patient = False

    def is_answered(key: bytes) -> bool:
        try:
            return asked.asking.ask(Question.PING, key=key).status is ReplyStatus.OK
        except (TimeoutError, AssertionError):
            return False

    wait_until(lambda: is_answered(new), what="the new key is used")
    asked.write_key(KEY)
    wait_until(lambda: is_answered(KEY), what="the old key is back")
    asked.asking.is_patient = True


def test_a_flood_of_wrong_datagrams_gets_no_reply_and_leaves_no_trace(asked: Asked) -> None:
    pid = asked.cluster.daemons["confd"].pid
    genuine = ConfdRequest(Question.PING, "r").to_text()
    wrong = [
        b"",
        b"plj0",
        os.urandom(64),
        MAGIC + b'{"msg": "x", "salt": "1", "hmac": "00"}',
        MAGIC + b"[" * 4000,
        seal(b"wrong", genuine, str(int(time.time()))),
        seal(KEY, genuine, str(int(time.time()) - 1000)),
        seal(KEY, "no question", str(int(time.time()))),
        b"x" * 6000,
    ]
    assert asked.ask(Question.PING).status is ReplyStatus.OK
    before = memory_kib(pid)

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        stranger.connect(asked.asking.socket.getpeername())
        for number in range(FLOOD):
            stranger.send(wrong[number % len(wrong)])
            if number % 20 == 0:
                # so that the kernel drops none of them
                assert asked.ask(Question.PING).status is ReplyStatus.OK
        assert asked.ask(Question.PING).status is ReplyStatus.OK
        with pytest.raises(BlockingIOError):
            stranger.recv(65536, socket.MSG_DONTWAIT)

    assert memory_kib(pid) - before < 2048
    lines = unanswered(asked)
    assert len(lines) <= 2
    asked.cluster.kill("confd", signal.SIGTERM)
    # the last line is written at the end
    counts = [int(count) for line in unanswered(asked) for count in re.findall(r'="(\d+) x ', line)]
    # for the tests after it, whichever they are
    asked.start()
    assert sum(counts) >= FLOOD


def unanswered(asked: Asked) -> list[str]:
    return [line for line in asked.cluster.log("confd").splitlines() if "requests.unanswered" in line]


def memory_kib(pid: int) -> int:
    line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1])
