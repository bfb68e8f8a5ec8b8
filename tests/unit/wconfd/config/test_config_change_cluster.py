"""Setting values of the cluster: only those given, and none that make the configuration unsound (wconfd.md 7.6)."""

import attrs
import pytest

from common.errors import ConfigurationError, Conflict, InvalidRequest
from daemons.wconfd.core.config.changes import change_cluster
from tests.support.configs import small_config

NOW = 2000.0


def test_only_the_given_values_change_and_ports_taken_meanwhile_stay_taken() -> None:
    config = small_config()
    cluster = attrs.evolve(config.cluster, tcpudp_port_pool=(11001,))
    config = attrs.evolve(config, cluster=cluster)

    after, stamp = change_cluster(config, {"volume_group_name": "xenvg", "max_running_jobs": 7}, 1, NOW)

    expected = attrs.evolve(cluster, volume_group_name="xenvg", max_running_jobs=7, serial_no=2, mtime=NOW)
    assert after.cluster == expected
    assert stamp == (2, NOW)
    assert after.serial_no == config.serial_no + 1
    assert change_cluster(after, {"volume_group_name": None}, 2, NOW)[0].cluster.volume_group_name is None


def test_the_second_delivery_of_a_change_is_told_the_same_and_changes_nothing() -> None:
    after, stamp = change_cluster(small_config(), {"max_running_jobs": 7}, 1, NOW)

    assert change_cluster(after, {"max_running_jobs": 7}, 1, NOW + 1, stamp) == (after, stamp)


def test_a_cluster_that_was_changed_since_it_was_read_is_not_changed() -> None:
    with pytest.raises(ConfigurationError, match=r"^the cluster was changed since it was read: its serial number is 1"):
        change_cluster(small_config(), {"max_running_jobs": 7}, 2, NOW)


@pytest.mark.parametrize(
    ("values", "error", "text"),
    [
        ({"master_node": "x"}, InvalidRequest, "'master_node' of the cluster is changed by another call, or never"),
        ({"serial_no": 9}, InvalidRequest, "'serial_no' of the cluster is changed by another call, or never"),
        ({"x": 1}, InvalidRequest, "invalid cluster: "),
        ({"max_running_jobs": "7"}, InvalidRequest, "invalid cluster: expected int, got '7'"),
        ({"enabled_hypervisors": []}, Conflict, "the cluster cannot be changed so: no hypervisor is enabled"),
        (
            {"enabled_hypervisors": ["kvm"]},
            Conflict,
            "the cluster cannot be changed so: hypervisor 'kvm' is enabled, b",
        ),
        ({"enabled_disk_templates": []}, Conflict, "the cluster cannot be changed so: no disk template is enabled"),
    ],
)
def test_what_would_make_the_configuration_unsound_is_refused(
    values: dict[str, object], error: type[Exception], text: str
) -> None:
    with pytest.raises(error) as raised:
        change_cluster(small_config(), values, 1, NOW)

    assert str(raised.value).startswith(text)
