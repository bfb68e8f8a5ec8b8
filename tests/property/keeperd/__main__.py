"""A month of faults in virtual time: `python -m tests.property.keeperd --seed 7 --days 30`.

It prints what has happened how often, and ends with an error that tells the last faults if something broke.
"""

import argparse

from tests.property.keeperd.torment import Plan, Torment


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--days", type=float, default=30.0)
    parser.add_argument("--ttl", type=float, default=10.0, help="seconds")
    asked = parser.parse_args()
    torment = Torment(asked.seed, Plan(ttl_s=asked.ttl))
    torment.run(asked.days * 86400)
    for what, count in sorted(torment.world.counts.items()):
        print(f"{count:>9}  {what}")
    print(f"epochs {torment.world.etcd.store.epoch}, writes {torment.cluster.written}: nothing broke")


if __name__ == "__main__":
    main()
