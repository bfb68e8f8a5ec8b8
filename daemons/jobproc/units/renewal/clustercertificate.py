"""A new certificate of the cluster, with a time between in which all nodes trust the old one and the new one.

Theory. The new certificate waits in a file of its own on the master, as long as the renewal is not finished. First all
nodes trust both; then all nodes get certificates that the new one has signed (`nodecertificates`); then they show the
new one; at last they forget the old one, the master last of all. Each step is made on all nodes before the next
begins, so two nodes always trust each other, and connections that are open go on. Each step may be repeated: which
one is to be done tells the first certificate in the master's own file.

Source: DESIGN section 13.
"""

from pathlib import Path

from common.durable.durably import durably
from common.durable.moves import remove_files
from common.errors import PrerequisiteError
from common.nodes.certificates.pemcontent import certificates_in, has_key, key_in
from common.nodes.certificates.renewalfiles import RenewalFiles
from common.paths import Paths
from daemons.jobproc.context import UnitContext
from daemons.jobproc.units.renewal.nodecalls import RenewalCalls, is_unknown
from protocol.noded.clients.outcomes import Failed
from protocol.noded.renewal import PutClusterCertificate, RequestCertificate


class ClusterCertificate:
    """Args: new: PEM of the new key and certificate."""

    def __init__(self, context: UnitContext, calls: RenewalCalls, own_name: str, new: bytes) -> None:
        self._context = context
        self._calls = calls
        self._paths: Paths = context.settings.paths
        self._files = RenewalFiles(self._paths, own_name)
        self._new = certificates_in(new)[0]
        self._new_key = key_in(new)
        content = self._paths.server_pem.read_bytes()
        self._is_shown = certificates_in(content)[0] == self._new
        self._old = [each for each in certificates_in(content) if each != self._new]
        self._old_key = b"" if self._is_shown or not has_key(content) else key_in(content)

    def trust_both(self, waiting: Path) -> None:
        """Let all nodes trust the new certificate beside the old one.

        Args: waiting: file in which it waits.
        Raises: ExecutionError: a node has not done it. PrerequisiteError: a node is a Ganeti's; the file is gone.
        """
        if self._is_shown:
            return
        self._refuse_theirs(waiting)
        self._put("trusting the new certificate of the cluster", self._old_key, [*self._old, self._new])
        self._context.feedback("all nodes trust the new certificate of the cluster beside the old one")

    def show(self) -> None:
        """Let all nodes show the new certificate, and still trust the old one. Raises: ExecutionError."""
        self._put("showing the new certificate of the cluster", self._new_key, [self._new, *self._old])
        self._context.feedback("all nodes show the new certificate of the cluster")

    def forget_old(self, waiting: Path) -> None:
        """Let all nodes trust the new certificate alone. Args: waiting: file in which it has waited."""
        outcomes = self._calls.ask(self._puts(self._new_key, [self._new]))
        for outcome in outcomes.values():
            if isinstance(outcome, Failed):
                self._context.feedback(f"warning: a node still trusts the old certificate: {outcome.text}")
        self._files.put_cluster((self._new_key + self._new).decode())
        durably(lambda: remove_files([waiting]))
        self._context.feedback("the old certificate of the cluster is no longer trusted")

    def _refuse_theirs(self, waiting: Path) -> None:
        """Refuse nodes that cannot get the new certificate, before any other trusts it."""
        asked = self._calls.ask({name: RequestCertificate() for name in self._calls.nodes})
        if theirs := [name for name, outcome in asked.items() if is_unknown(outcome)]:
            durably(lambda: remove_files([waiting]))
            raise PrerequisiteError(
                f"the node daemons of {', '.join(theirs)} are Ganeti's, which get a new certificate of the cluster by "
                "Ganeti's own tools only; nothing was changed",
                "wrong_state",
            )

    def _put(self, step: str, key: bytes, certificates: list[bytes]) -> None:
        self._calls.on_all(step, self._puts(key, certificates))
        self._files.put_cluster(b"".join([key, *certificates]).decode())

    def _puts(self, key: bytes, certificates: list[bytes]) -> dict[str, PutClusterCertificate]:
        """The calls; the key is for candidates alone, as any of them may become the master."""
        plain = b"".join(certificates).decode()
        whole = PutClusterCertificate(key.decode() + plain)
        without_key = PutClusterCertificate(plain)
        return {name: whole if node.master_candidate else without_key for name, node in self._calls.nodes.items()}
