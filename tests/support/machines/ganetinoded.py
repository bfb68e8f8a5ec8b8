"""A node daemon that knows the procedures of Ganeti's and none of ours, and no epochs; run it instead of noded.

That of Ganeti 3.0.2 hangs up on a caller of a procedure that it does not know; this one logs such calls.
"""

from collections.abc import Sequence

from common.system.log import get_log
from daemons.noded import main, rpc
from daemons.noded.transport import NodedReply, error_page
from protocol.noded.call import AnyCall
from protocol.noded.procedures import call_classes
from protocol.noded.statefiles import PREFIX

_log = get_log(__name__)


def _known() -> Sequence[type[AnyCall]]:
    return [kind for kind in call_classes() if not kind.METHOD.startswith(PREFIX)]


def _rows(to: rpc.NodedHandlers) -> Sequence[rpc.AnyRow]:
    return [row for row in rpc.rows(to) if row.call_class in _known()]


def _result_page(body: bytes, epoch: int) -> NodedReply:
    del epoch
    return NodedReply(200, "application/json", body)


def _error_page(status: int, text: str) -> NodedReply:
    _log.error("test.refused", text=text)
    return error_page(status, text)


if __name__ == "__main__":
    rpc.call_classes = _known  # type: ignore[attr-defined]
    main.rows = _rows  # type: ignore[attr-defined]
    rpc.result_page = _result_page  # type: ignore[attr-defined]
    rpc.error_page = _error_page  # type: ignore[attr-defined]
    main.main()
