"""The faults that a verification finds, in the form in which Ganeti's jobs tell them.

    ERROR: cluster: the master node 'x' is none of the nodes
    ERROR:ECLUSTERCFG:cluster::the master node 'x' is none of the nodes      # with `error_codes`

Source: opcodes.md 3 (CVErrorCode), CLUSTER_VERIFY_CONFIG; recorded jobs.
"""

from collections.abc import Callable, Iterable

import attrs

from common.opcodes.cluster import Verification


@attrs.frozen
class FaultKind:
    """A kind of fault."""

    # `ECLUSTERCFG`
    code: str
    # kind of the object that has it
    kind: str


CONFIG = FaultKind("ECLUSTERCFG", "cluster")
CERTIFICATE = FaultKind("ECLUSTERCERT", "cluster")
DANGLING_NODES = FaultKind("ECLUSTERDANGLINGNODES", "node")
DANGLING_INSTANCES = FaultKind("ECLUSTERDANGLINGINST", "instance")
NODE_RPC = FaultKind("ENODERPC", "node")
NODE_VERSION = FaultKind("ENODEVERSION", "node")
NODE_TIME = FaultKind("ENODETIME", "node")
NODE_SETUP = FaultKind("ENODESETUP", "node")
NODE_FILES = FaultKind("ENODEFILECHECK", "node")
NODE_CERTIFICATE = FaultKind("ECLUSTERCLIENTCERT", "cluster")


class Findings:
    """What was found; each fault is told at once, as a line of the job's log."""

    def __init__(self, options: Verification, tell: Callable[[str], None]) -> None:
        self._options = options
        self._tell = tell
        self.is_bad = False

    def add(self, fault: FaultKind, text: str, *, item: str = "", is_warning: bool = False) -> None:
        """Tell a fault.

        Args:
            item: name of the object that has it.
            is_warning: whether it leaves the verification good, as one does that the user ignores.
        """
        mild = is_warning or fault.code in self._options.ignore_errors
        word = "WARNING" if mild else "ERROR"
        if self._options.error_codes:
            line = f"{word}:{fault.code}:{fault.kind}:{item}:{text}"
        else:
            line = f"{word}: {fault.kind}{' ' if item else ''}{item}: {text}"
        self._tell(f"  - {line}")
        self.is_bad = self.is_bad or not mild

    def check(self, fault: FaultKind, texts: Iterable[str], simulated: str) -> None:
        """Tell each of these faults; or, when faults are to be simulated, one of the kind."""
        for text in [*texts] or ([simulated] if self._options.debug_simulate_errors else []):
            self.add(fault, text)
