"""The callers that noded obeys: those that show the certificate of a master candidate.

Theory. `ssconf_master_candidates_certs` has a digest for each candidate. A node that has no such file yet, or an
empty one, is new: it obeys the holder of the cluster's own certificate, who then sends the file. The file is read
again when it is another one; if it cannot be read, nobody is judged by what it said before.

Source: noded.md 3.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from common.errors import DamagedFile, Unavailable, explain
from common.nodes.certificates import digest_of
from common.system.log import get_log
from common.system.stamps import MISSING, Stamp, stamp_at

# limit of the file; as for all of ssconf
_MAX_BYTES: Final = 128 * 1024
_log: Final = get_log(__name__)


class Callers:
    """Judges callers by the digests of their certificates.

    Args: candidates: the file of ssconf. server_pem: the cluster's key and certificate.
    """

    def __init__(self, candidates: Path, server_pem: Path) -> None:
        self._candidates = _Digests(candidates, read_candidates)
        self._cluster = _Digests(server_pem, lambda content: frozenset({digest_of(content)}))

    def may_call(self, digest: str) -> bool:
        """Whether the holder of this certificate is obeyed. Raises: Unavailable: that cannot be told now."""
        candidates = self._candidates.read()
        return digest in (candidates or self._cluster.read())

    @property
    def is_new(self) -> bool:
        """Whether the node knows no candidates yet. Raises: Unavailable."""
        return not self._candidates.read()


def read_candidates(content: bytes) -> frozenset[str]:
    """The digests in lines of `node-uuid=DIGEST`; an empty one is nobody's."""
    lines = content.decode("ascii", "replace").splitlines()
    return frozenset(digest for line in lines if (digest := line.partition("=")[2].strip().upper()))


class _Digests:
    """The digests in a file, read again when it is another one."""

    def __init__(self, path: Path, parse: Callable[[bytes], frozenset[str]]) -> None:
        self._path = path
        self._parse = parse
        self._stamp: Stamp | None = None
        self._found: frozenset[str] = frozenset()

    def read(self) -> frozenset[str]:
        """Empty: there is no file. Raises: Unavailable."""
        try:
            stamp = stamp_at(self._path)
            if stamp != self._stamp:
                self._found = frozenset() if stamp == MISSING else self._parse(self._content())
                self._stamp = stamp
        except (OSError, DamagedFile) as error:
            self._stamp = None
            reason = explain(error)
            _log.error("callers.unknown", path=self._path, reason=reason)
            raise Unavailable(f"whether this caller is a master candidate cannot be told: {reason}") from error
        return self._found

    def _content(self) -> bytes:
        fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.read(fd, _MAX_BYTES)
        finally:
            os.close(fd)
