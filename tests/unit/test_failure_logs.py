"""A failed test shows what its daemons have logged."""

from pathlib import Path

from tests.support.cluster import Cluster
from tests.support.failurelogs import last_words


def test_the_last_lines_of_the_logs_of_clusters_in_use_are_told(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    cluster.paths.log.mkdir(parents=True, exist_ok=True)
    path = cluster.paths.log_file("luxid")
    path.write_text("".join(f"line {number}\n" for number in range(100)))
    (tmp_path / "stderr-luxid").touch()

    told = dict(last_words())

    assert told[f"the end of {path}"].splitlines() == [f"line {number}" for number in range(75, 100)]
    assert f"the end of {tmp_path}/stderr-luxid" not in told
