"""A node daemon that knows the procedures of Ganeti's and none of ours; run it instead of noded."""

from collections.abc import Sequence

from daemons.noded import main, rpc
from protocol.noded.call import AnyCall
from protocol.noded.procedures import call_classes
from protocol.noded.statefiles import PREFIX


def _known() -> Sequence[type[AnyCall]]:
    return [kind for kind in call_classes() if not kind.METHOD.startswith(PREFIX)]


def _rows(to: rpc.Handlers) -> Sequence[rpc.AnyRow]:
    return [row for row in rpc.rows(to) if row.call_class in _known()]


if __name__ == "__main__":
    rpc.call_classes = _known  # type: ignore[attr-defined]
    main.rows = _rows  # type: ignore[attr-defined]
    main.main()
