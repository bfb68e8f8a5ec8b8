"""What `systemctl status` shows of luxid."""

from daemons.luxid.scheduler import status_of


def test_a_queue_without_obstacles_starts_jobs() -> None:
    assert status_of(set()) == "STATUS=jobs start"


def test_every_obstacle_is_named() -> None:
    line = status_of({"wconfd has not told the filter rules yet", "the fork server is not reached"})

    assert line == ("STATUS=no job starts: the fork server is not reached; wconfd has not told the filter rules yet")
