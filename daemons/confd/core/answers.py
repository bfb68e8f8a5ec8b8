"""The answer to each question, from a catalogue.

Source: confd.md 3 and 4.
"""

import enum
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

import attrs

from common.jsontext import ascii_json
from common.objects.codec import to_json
from common.objects.config import Node
from common.objects.kinds import Hypervisor
from daemons.confd.core.catalogue import Catalogue, CatalogueEntry, Names, NoEntry, NoPlace, find
from protocol.confd.questions import (
    MAX_REPLY_BYTES,
    MAX_REQUEST_BYTES,
    Argument,
    ConfdFault,
    ConfdRole,
    MasterField,
    Question,
    Reply,
    ReplyStatus,
    Terms,
    read_request,
    seal,
    unseal,
)

T = TypeVar("T", bound=CatalogueEntry)
_Answer = Callable[[Catalogue, Argument], Reply]
# names and defaults of Ganeti's collectors
_COLLECTORS: Final = ("cpu-avg-load", "diskstats", "drbd", "inst-status-xen", "lv", "xen-cpu-avg-load")
# the texts are Ganeti's, word by word
_WRONG_KIND: Final = "Invalid query type"
# names of `MasterField` in Ganeti's texts
_FIELD_NAMES: Final = {
    MasterField.NAME: "ReqFieldName",
    MasterField.IP: "ReqFieldIp",
    MasterField.NODE_IP: "ReqFieldMNodePip",
}
_INTERVAL_US: Final = 5_000_000
_XEN: Final = frozenset((Hypervisor.XEN_PVM, Hypervisor.XEN_HVM))


class _Wrong(Exception):
    """Args: answer: that of an error."""

    def __init__(self, answer: object) -> None:
        super().__init__(answer)
        self.answer = answer


def answer(catalogue: Catalogue, question: Question, argument: Argument) -> Reply:
    """Answer a question; each question has an answer, which may be an error."""
    try:
        return _ANSWERS[question](catalogue, argument)
    except _Wrong as error:
        return Reply(ReplyStatus.ERROR, error.answer)


def _ping(catalogue: Catalogue, _: Argument) -> Reply:
    return Reply(ReplyStatus.OK, catalogue.config.version)


def _node_role(catalogue: Catalogue, argument: Argument) -> Reply:
    name = _text(argument)
    try:
        node = catalogue.nodes.find(name)
    except NoEntry as error:
        details = "Failure: prerequisites not met for this operation:\nerror type: ECodeNoEnt, error details:\n"
        raise _Wrong(f"{details}{error}") from None
    master = catalogue.master
    # the name as it was sent: neither a uuid nor a short name is the master's
    role = ConfdRole.MASTER if master is not None and name == master.name else _role(node)
    return Reply(ReplyStatus.OK, role.value, catalogue.serial)


def _role(node: Node) -> ConfdRole:
    if node.drained:
        return ConfdRole.DRAINED
    if node.offline:
        return ConfdRole.OFFLINE
    return ConfdRole.CANDIDATE if node.master_candidate else ConfdRole.REGULAR


def _node_by_instance_ip(catalogue: Catalogue, argument: Argument) -> Reply:
    if not isinstance(argument, Terms):
        raise _Wrong(ConfdFault.ARGUMENT.value)
    link = catalogue.default_link if argument.link is None else argument.link
    serial = catalogue.serial
    if argument.ip is not None:
        home = catalogue.home_of(argument.ip, link)
        if home is None:
            raise _Wrong(ConfdFault.UNKNOWN_ENTRY.value)
        return Reply(ReplyStatus.OK, home, serial)
    homes = [catalogue.home_of(ip, link) for ip in argument.ips]
    unknown = [ReplyStatus.ERROR.value, ConfdFault.UNKNOWN_ENTRY.value, 0]
    return Reply(
        ReplyStatus.OK, [unknown if home is None else [ReplyStatus.OK.value, home, serial] for home in homes], serial
    )


def _master(catalogue: Catalogue, argument: Argument) -> Reply:
    master = catalogue.master
    if master is None:
        raise _Wrong(ConfdFault.UNKNOWN_ENTRY.value)
    if argument is None:
        return Reply(ReplyStatus.OK, master.name, catalogue.serial)
    if isinstance(argument, str):
        raise _Wrong(ConfdFault.ARGUMENT.value)
    values = {
        MasterField.NAME: master.name,
        MasterField.IP: catalogue.config.cluster.master_ip,
        MasterField.NODE_IP: master.primary_ip,
    }
    return Reply(ReplyStatus.OK, [values[field] for field in argument.fields], catalogue.serial)


def _node_ips(catalogue: Catalogue, _: Argument) -> Reply:
    return Reply(ReplyStatus.OK, catalogue.node_ips, catalogue.serial)


def _candidate_ips(catalogue: Catalogue, _: Argument) -> Reply:
    return Reply(ReplyStatus.OK, catalogue.candidate_ips, catalogue.serial)


def _instance_ips(catalogue: Catalogue, argument: Argument) -> Reply:
    if isinstance(argument, Terms):
        raise _Wrong(_WRONG_KIND)
    link = catalogue.default_link if argument is None else argument
    return Reply(ReplyStatus.OK, catalogue.instance_ips(link), catalogue.serial)


def _node_drbd(catalogue: Catalogue, argument: Argument) -> Reply:
    node = _found(catalogue.nodes, argument)
    return Reply(ReplyStatus.OK, [minor.to_wire() for minor in catalogue.minors_of(node)], node.serial_no)


def _node_instances(catalogue: Catalogue, argument: Argument) -> Reply:
    node = _found(catalogue.nodes, argument, "Node not found in the configuration: ")
    instances = [[to_json(each) for each in some] for some in catalogue.instances_of(node)]
    return Reply(ReplyStatus.OK, instances, node.serial_no)


def _instance_disks(catalogue: Catalogue, argument: Argument) -> Reply:
    instance = _found(catalogue.instances, argument, "Instance not found in the configuration: ")
    return Reply(ReplyStatus.OK, [to_json(disk) for disk in catalogue.disks(instance)], instance.serial_no)


def _config(catalogue: Catalogue, argument: Argument) -> Reply:
    try:
        return Reply(ReplyStatus.OK, find(catalogue.document, _text(argument)), catalogue.serial)
    except NoPlace:
        raise _Wrong(ConfdFault.ARGUMENT.value) from None


def _collectors(catalogue: Catalogue, _: Argument) -> Reply:
    cluster = catalogue.config.cluster
    has_xen = not _XEN.isdisjoint(cluster.enabled_hypervisors)
    found: dict[str, object] = {}
    for name in sorted({*_COLLECTORS, *cluster.data_collectors}):
        given = cluster.data_collectors.get(name)
        is_active = (given is None or given.active) and (has_xen or name != "inst-status-xen")
        found[name] = {"active": is_active, "interval": _INTERVAL_US if given is None else given.interval}
    return Reply(ReplyStatus.OK, found, catalogue.serial)


def _text(argument: Argument) -> str:
    if isinstance(argument, str):
        return argument
    raise _Wrong(f"{_WRONG_KIND} {'EmptyQuery' if argument is None else f'DictQuery ({_shown(argument)})'}")


def _shown(terms: Terms) -> str:
    """As Ganeti's program shows it, which is what its users know."""
    ip, link = (f"Just {_quoted(each)}" if each is not None else "Nothing" for each in (terms.ip, terms.link))
    ips, fields = ",".join(map(_quoted, terms.ips)), ",".join(_FIELD_NAMES[field] for field in terms.fields)
    return (
        f"ConfdReqQ {{confdReqQIp = {ip}, confdReqQIpList = [{ips}], confdReqQLink = {link}, "
        f"confdReqQFields = [{fields}]}}"
    )


def _quoted(text: str) -> str:
    return ascii_json(text).decode()


def _found(names: Names[T], argument: Argument, before: str = "") -> T:
    try:
        return names.find(_text(argument))
    except NoEntry as error:
        raise _Wrong(f'{before}OpPrereqError "{error}" ECodeNoEnt') from None


_ANSWERS: Final[Mapping[Question, _Answer]] = {
    Question.PING: _ping,
    Question.NODE_ROLE: _node_role,
    Question.NODE_BY_INSTANCE_IP: _node_by_instance_ip,
    Question.MASTER: _master,
    Question.NODE_IPS: _node_ips,
    Question.CANDIDATE_IPS: _candidate_ips,
    Question.INSTANCE_IPS: _instance_ips,
    Question.NODE_DRBD: _node_drbd,
    Question.NODE_INSTANCES: _node_instances,
    Question.INSTANCE_DISKS: _instance_disks,
    Question.CONFIG: _config,
    Question.COLLECTORS: _collectors,
}


# A datagram comes in: the reply that goes out, or silence.
#
# Theory. All that decides is a value: the time, the datagram, and a snapshot of key and configuration. Whoever lacks
# the key gets nothing, so that nobody can be made to answer a third party, and no work is done for him but the
# signature.
#
# Source: confd.md 2.


class NoReplyReason(enum.Enum):
    """Why there is no reply."""

    NO_KEY = "this node has no key"
    TOO_LONG = "the request is too long"
    NOT_GENUINE = "it is not signed with our key"
    NOT_RECENT = "its time is not ours"
    NOT_A_QUESTION = "it is signed, but no question"
    HUGE_ANSWER = "the answer does not fit into a datagram"


@attrs.frozen
class ConfigSnapshot:
    """What is known: it never changes, a new one takes its place."""

    # None: no key could be read
    key: bytes | None
    # why there is no configuration, or the configuration
    catalogue: Catalogue | str


def judge(snapshot: ConfigSnapshot, datagram: bytes, now: float) -> bytes | NoReplyReason:
    """The reply to a datagram. Args: now: seconds since the epoch."""
    if snapshot.key is None:
        return NoReplyReason.NO_KEY
    if len(datagram) > MAX_REQUEST_BYTES:
        return NoReplyReason.TOO_LONG
    signed = unseal(snapshot.key, datagram)
    if signed is None:
        return NoReplyReason.NOT_GENUINE
    if not signed.is_recent(now):
        return NoReplyReason.NOT_RECENT
    request = read_request(signed.text)
    if request is None:
        return NoReplyReason.NOT_A_QUESTION
    if isinstance(snapshot.catalogue, str):
        reply = Reply(ReplyStatus.ERROR, snapshot.catalogue)
    else:
        reply = answer(snapshot.catalogue, request.question, request.argument)
    sealed = seal(snapshot.key, reply.to_text(), request.rsalt)
    return sealed if len(sealed) <= MAX_REPLY_BYTES else NoReplyReason.HUGE_ANSWER
