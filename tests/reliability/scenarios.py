"""What is done while something fails: each a short story of a client, whose end the oracle knows."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from common.queue.terms import JobTerms, Use, terms_entry
from tests.reliability.driver import Driver

Scenario = Callable[[Driver], None]
LOCK: Final = "node/n1"


def submit(driver: Driver) -> None:
    driver.wait_for(*driver.submit(driver.work()))


def submit_many(driver: Driver) -> None:
    driver.wait_for(*driver.submit_many(*((driver.work(),) for _ in range(3))))


def submit_with_key(driver: Driver) -> None:
    driver.wait_for(*driver.submit_many(*((driver.work(),) for _ in range(3)), key="this once"))


def opcodes_and_dependents(driver: Driver) -> None:
    first = driver.work()
    ids = driver.submit(first, driver.work(locks={LOCK: "exclusive"}), last := driver.work())
    if ids:
        second = driver.work(after=ids)
        driver.take_rules(after={second["comment"]: last["comment"]})
        ids += driver.submit(second)
    driver.wait_for(*reversed(ids))


def locks(driver: Driver) -> None:
    ops = [driver.work(locks={LOCK: "exclusive"}) for _ in range(3)]
    driver.take_rules(exclusive=frozenset(op["comment"] for op in ops))
    driver.lock("alice", LOCK)
    ids = [job_id for op in ops for job_id in driver.submit(op)]
    driver.lock("bob", "node/n2")
    driver.free("alice")
    driver.wait_for(*ids)
    driver.lock("alice", LOCK)
    driver.free("bob")


def cancel(driver: Driver) -> None:
    driver.lock("alice", LOCK)
    waiting = driver.submit(driver.work(locks={LOCK: "exclusive"}))
    dependent = driver.submit(driver.work(after=waiting)) if waiting else []
    other = driver.submit(driver.work(), driver.work(locks={LOCK: "exclusive"}))
    driver.wait_for(*waiting, states=("waiting",))
    for job_id in (*dependent, *waiting, *other):
        driver.cancel(job_id)
    driver.wait_for(*waiting, *dependent, *other)
    driver.free("alice")


def archive(driver: Driver) -> None:
    ids = [job_id for _ in range(3) for job_id in driver.submit(driver.work())]
    driver.wait_for(*ids)
    if ids:
        driver.archive(ids[0])
        driver.archive(*ids[1:])
    driver.wait_for(*driver.submit(driver.work()))


def drain(driver: Driver) -> None:
    driver.drain(True)
    driver.submit(driver.work())
    driver.drain(False)
    driver.wait_for(*driver.submit(driver.work()))
    driver.drain(True)
    driver.drain(False)


def filter_rules(driver: Driver) -> None:
    uuid = driver.add_filter("first")
    driver.wait_for(*driver.submit(driver.work()))
    other = driver.add_filter("second")
    if uuid:
        driver.delete_filter(uuid)
    if other:
        driver.add_filter("second", uuid=other)


def config(driver: Driver) -> None:
    for port in (14001, 14002, 14003):
        driver.add_port(port)


def restart_luxid(driver: Driver) -> None:
    """Its files are read while one job waits for a lock, one is queued behind it, and others have ended."""
    driver.farm.revive()
    ended = driver.submit(driver.work())
    driver.lock("alice", LOCK)
    waiting = driver.submit(driver.work(locks={LOCK: "exclusive"}))
    dependent = driver.submit(driver.work(after=waiting)) if waiting else []
    driver.wait_for(*ended)
    driver.farm.kill("luxid")
    driver.farm.revive()
    driver.free("alice")
    driver.wait_for(*waiting, *dependent)


def restart_wconfd(driver: Driver) -> None:
    driver.lock("alice", LOCK)
    ids = driver.submit(driver.work(locks={LOCK: "exclusive"}))
    driver.wait_for(*ids, states=("waiting",))
    driver.farm.kill("wconfd")
    driver.farm.revive()
    driver.lock("alice", LOCK)
    driver.free("alice")
    driver.wait_for(*ids)


def schedules(driver: Driver) -> None:
    """One whose runs come by the clock, one that is run by hand, one that is changed and removed."""
    driver.add_schedule("ticking", every_s=1)
    driver.add_schedule("by-hand")
    driver.add_schedule("short-lived")
    driver.pause_schedule("short-lived", True)
    ids = driver.run_schedule("by-hand", "this once")
    driver.wait_for(*ids)
    driver.pause_schedule("short-lived", False)
    driver.remove_schedule("short-lived")
    driver.wait_for_runs("ticking", 2)
    driver.pause_schedule("ticking", True)


def resources(driver: Driver) -> None:
    driver.set_resource("licences", 1)
    uses: dict[str, Any] = {"reason": [terms_entry(JobTerms(uses=(Use("", "licences", 1),)), 0).to_wire()]}
    ids = [job_id for _ in range(2) for job_id in driver.submit(driver.work(**uses))]
    driver.set_resource("cores", 4)
    driver.wait_for(*ids)
    driver.set_resource("licences", 2)
    driver.remove_resource("cores")
    driver.wait_for(*driver.submit(driver.work(**uses)))


def retention(driver: Driver) -> None:
    """Jobs are archived and removed but for the last one, and others come after them."""
    ids = [job_id for _ in range(3) for job_id in _run(driver, driver.work())]
    if len(ids) == 3:
        driver.archive(*ids)
        driver.prune(*ids[:2])
    more = _run(driver, driver.work())
    if len(ids) == 3 and more:
        driver.archive(*more)
        driver.prune(ids[2])
    _run(driver, driver.work())


def notifications(driver: Driver) -> None:
    told: dict[str, Any] = {"reason": [terms_entry(JobTerms(labels={"told": "yes"}), 0).to_wire()]}
    ops = [driver.work(**told) for _ in range(3)]
    driver.take_rules(told=frozenset(op["comment"] for op in ops))
    _run(driver, ops[0])
    driver.wait_for(*(job_id for op in ops[1:] for job_id in driver.submit(op)))
    _run(driver, driver.work())


def _run(driver: Driver, op: dict[str, Any]) -> list[int]:
    ids = driver.submit(op)
    driver.wait_for(*ids)
    return ids


SCENARIOS: Final[Mapping[str, Scenario]] = {
    each.__name__.replace("_", "-"): each
    for each in (
        submit,
        submit_many,
        submit_with_key,
        opcodes_and_dependents,
        locks,
        cancel,
        archive,
        drain,
        filter_rules,
        config,
        restart_luxid,
        restart_wconfd,
        schedules,
        resources,
        retention,
        notifications,
    )
}
