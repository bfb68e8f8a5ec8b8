"""Files of logs (DESIGN section 16)."""

import gzip
from pathlib import Path

from cli.gantry.logs import lines_of

# bytes of the header of `gzip.compress`; the first block follows
_HEADER = 10


def test_a_rotated_log_that_is_damaged_ends_early(tmp_path: Path) -> None:
    packed = gzip.compress(b"one\ntwo\n")
    path = tmp_path / "luxid.log.2.gz"
    # no kind of block begins so
    path.write_bytes(packed[:_HEADER] + b"\xff" + packed[_HEADER + 1 :])

    assert list(lines_of(path)) == []
