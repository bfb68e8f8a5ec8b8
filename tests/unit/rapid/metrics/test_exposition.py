"""The text for Prometheus, read back by its own parser."""

import re

import attrs
import pytest
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_open
from prometheus_client.parser import text_string_to_metric_families as read_plain

from common.metrics import PREFIX, declared
from daemons.rapid.metrics.scraping import MetricsSnapshot, write
from tests.unit.rapid.metrics.numbers import ALL, LUXID, seconds, wconfd

# units with which a name may end, after which only `_total` may follow
BASE_UNITS = ("seconds", "bytes")


def families(snapshot: MetricsSnapshot = ALL) -> dict[str, Metric]:
    return {family.name: family for family in read_plain(write(snapshot.families())[0].decode())}


def value(family: Metric, name: str = "", **labels: str) -> float:
    (found,) = [each.value for each in family.samples if each.labels == labels and each.name == (name or each.name)]
    return found


def test_each_family_is_told_once_with_its_type_and_a_sentence() -> None:
    text = write(ALL.families())[0].decode()

    names = re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M)
    assert len(names) == len({name for name, _ in names}) > 40
    assert all(family.documentation.endswith(".") for family in families().values())


def test_the_numbers_of_these_tests_are_all_that_the_daemons_declare() -> None:
    names = [each.name for each in declared() if "frob" not in each.name]

    assert len(names) == len(set(names))
    assert {PREFIX + name for name in names} == families().keys()


def test_names_follow_the_conventions_of_prometheus() -> None:
    for name, family in families().items():
        assert re.fullmatch(r"gantry_[a-z0-9_]+", name)
        assert not re.search(r"_(ms|minutes|kb|mib|kib|percent|count)$", name)
        assert (family.type == "histogram") <= name.endswith("_seconds")
        for unit in BASE_UNITS:
            assert f"_{unit}_" not in name


def test_both_formats_tell_the_same_numbers() -> None:
    plain, plain_type = write(ALL.families())
    open_, open_type = write(ALL.families(), is_open=True)

    assert plain_type.startswith("text/plain")
    assert open_type.startswith("application/openmetrics-text")

    def samples(found: list[Metric]) -> set[tuple[str, tuple[tuple[str, str], ...], float]]:
        return {(each.name, tuple(sorted(each.labels.items())), each.value) for one in found for each in one.samples}

    told = list(read_open(open_.decode()))  # type: ignore[no-untyped-call]  # the library gives it no types
    assert samples(told) == samples(list(read_plain(plain.decode())))


def test_a_histogram_counts_upwards_to_all_its_values() -> None:
    delay = families()["gantry_queue_delay_seconds"]

    buckets = [(each.labels["le"], each.value) for each in delay.samples if each.name.endswith("_bucket")]
    assert buckets == [("0.1", 2), ("1.0", 5), ("+Inf", 9)]
    assert value(delay, "gantry_queue_delay_seconds_count") == seconds().read().count
    assert value(delay, "gantry_queue_delay_seconds_sum") == 12.5


def test_numbers_are_told_by_status_daemon_and_opcode() -> None:
    found = families()

    assert value(found["gantry_jobs"], status="queued") == 5
    assert value(found["gantry_jobs_ended"], status="error") == 1
    assert value(found["gantry_calls_refused"], daemon="luxid", code="denied") == 2
    assert value(found["gantry_http_requests"], part="/3", status="2xx") == 6
    run = found["gantry_opcode_run_seconds"]
    assert value(run, "gantry_opcode_run_seconds_sum", opcode="OP_TEST_DUMMY") == 12.5


@pytest.mark.parametrize("away", ["luxid", "wconfd"])
def test_a_daemon_that_is_away_takes_only_its_own_numbers_with_it(away: str) -> None:
    found = families(attrs.evolve(ALL, replies={**ALL.replies, away: None}))

    assert value(found["gantry_up"], daemon=away) == 0
    assert value(found["gantry_up"], daemon="rapid") == 1
    assert ("gantry_jobs" in found, "gantry_locks_held" in found) == (away != "luxid", away != "wconfd")
    assert "gantry_http_requests" in found


def test_a_descriptor_limit_that_is_none_is_infinite() -> None:
    unlimited = attrs.evolve(LUXID, process=attrs.evolve(LUXID.process, max_descriptors=-1))

    found = families(attrs.evolve(ALL, replies={"luxid": unlimited}))

    assert value(found["gantry_process_max_fds"], daemon="luxid") == float("inf")


def test_the_mastership_and_commits_of_the_configuration_are_told_under_a_lease_only() -> None:
    found = families()
    without = families(attrs.evolve(ALL, mastership=None, replies={"luxid": LUXID, "wconfd": wconfd()}))

    told = {name: value(found[f"gantry_{name}"]) for name in ("is_master", "mastership_epoch", "etcd_changes")}
    assert told == {"is_master": 1, "mastership_epoch": 7, "etcd_changes": 5}
    assert value(found["gantry_etcd_members_silent"]) == value(found["gantry_candidates_stale"]) == 1
    assert value(found["gantry_etcd_size_bytes"]) == 4096
    assert value(found["gantry_config_etcd_entries"]) == 3
    assert value(found["gantry_config_commit_seconds"], "gantry_config_commit_seconds_count") == seconds().read().count
    assert len(found.keys() - without.keys()) == 17
