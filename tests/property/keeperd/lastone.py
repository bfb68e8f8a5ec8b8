"""Only one node is left, its keeperd dies again and again, and a stopped member of etcd keeps its requests."""

from tests.property.keeperd.torment import Plan, Torment


def last_one_crashes(seed: int, seconds: float = 300.0) -> Torment:
    torment = Torment(seed, Plan())
    node = torment.cluster.nodes["n1"]
    for peer in node.peers.values():
        peer.power_off(seconds)
    node.crash_chance = 0.7
    pause = torment.random.uniform(1.0, 6.0)
    for number in range(int(seconds / pause)):
        torment.world.after(pause * number, lambda: torment.hold(node, pause))
    torment.world.run(seconds)
    return torment
