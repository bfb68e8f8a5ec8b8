"""A member of etcd on each machine, which systemd runs."""

from pathlib import Path
from typing import Final

from tests.support.etcds.etcd import EtcdBinary
from tests.systemd.machines import Machines

_PROGRAM: Final = "/usr/local/bin/etcd"
_UNIT: Final = """[Unit]
After=network.target
[Service]
Type=notify
ExecStart={program} --name {name} --data-dir /var/lib/etcd \
 --listen-client-urls http://0.0.0.0:2379 --advertise-client-urls http://{name}:2379 \
 --listen-peer-urls http://0.0.0.0:2380 --initial-advertise-peer-urls http://{name}:2380 --initial-cluster {all}
Restart=always
[Install]
WantedBy=multi-user.target
"""
_SETTINGS: Final = """[cluster]
replication = "etcd"
[etcd]
endpoints = [{endpoints}]
"""


def settings(machines: Machines) -> str:
    """Gantry's, with which the members decide on the mastership."""
    return _SETTINGS.format(endpoints=", ".join(f'"http://{name}:2379"' for name in machines.all))


def start_etcd(machines: Machines, binary: EtcdBinary) -> None:
    """Let a member run on each machine, and after each of its boots; wait until they have a leader."""
    members = ",".join(f"{name}=http://{name}:2380" for name in machines.all)
    for name, engine in machines.all.items():
        engine.container.put(Path(binary.path), _PROGRAM)
        unit = _UNIT.format(program=_PROGRAM, name=name, all=members)
        engine.container.write("/etc/systemd/system/etcd.service", unit)
        engine.container.check("systemctl enable etcd && systemctl start --no-block etcd")
    for engine in machines.engines:
        # it is ready when it knows a leader
        engine.container.check("systemctl start etcd")
