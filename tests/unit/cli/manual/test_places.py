"""The pages of files and ports tell what is there: each path, each key, and forms that the daemons read."""

import json
from functools import cached_property

import attrs

from cli.manual.files import JOB, JOB_KEYS, LOCKS, MAY_RUN, OPCODE_KEYS, files_page
from cli.manual.interfaces import ports_page
from cli.manual.page import Definitions, ManualPage, Section, plain
from common.daemons import DAEMONS
from common.locks import LockLevel, LockMode, Owner, member_lock
from common.objects.config import Node
from common.paths import Paths
from common.queue.jobfile import decode_job, encode_job
from common.resources import Resource
from common.schedules.schedule import Schedule
from common.settings import CLASSES
from common.settingsfile import SYSTEM_PATHS
from daemons.wconfd.core.keptrows import FORMS
from daemons.wconfd.core.locks.encoding import decode
from daemons.wconfd.core.locks.mayrun import decode_may_run


def terms(section: Section) -> dict[str, str]:
    """What is defined in a section -> the words about it."""
    listed = [block for block in section.blocks if isinstance(block, Definitions)]
    return {plain(item.term): str(attrs.asdict(item)) for each in listed for item in each.items}


def sections(page: ManualPage) -> dict[str, Section]:
    return {section.title: section for section in page.sections}


def test_every_path_of_an_installation_is_told_with_what_it_is() -> None:
    page = sections(files_page())
    told = {term for title in ("Data", "Running", "Logs") for term in terms(page[title])}
    named = {
        str(getattr(SYSTEM_PATHS, name))
        for kind in Paths.__mro__
        for name, member in vars(kind).items()
        if isinstance(member, property | cached_property)
    }

    assert len(named) > 40
    assert named - told == set()
    assert {str(SYSTEM_PATHS.log_file(daemon.name)) for daemon in DAEMONS} <= told
    assert all(
        member.__doc__ for kind in Paths.__mro__ for member in vars(kind).values() if isinstance(member, property)
    )


def test_the_forms_have_all_keys_of_their_classes() -> None:
    forms = {part.title: terms(part) for part in sections(files_page())["Forms"].parts}

    assert set(attrs.fields_dict(Schedule)) <= set(forms["schedules.data"])
    assert set(attrs.fields_dict(Resource)) == set(forms["resources.data"])
    assert set(attrs.fields_dict(Node)) <= set(forms["config.data"])
    assert "at least 0" in forms["resources.data"]["total"]
    assert set(FORMS) <= set(forms)


def test_the_example_of_a_job_is_one_and_has_the_keys_that_are_told() -> None:
    job = decode_job(JOB.encode(), "job-17")
    begun = json.loads(encode_job(attrs.evolve(job, livelock="/livelock", process_id=4711)))

    assert json.loads(encode_job(job)) == json.loads(JOB)
    assert set(begun) == set(JOB_KEYS)
    assert set(begun["ops"][0]) == set(OPCODE_KEYS)


def test_the_examples_of_locks_and_orphans_are_read_by_wconfd() -> None:
    held, waiting = (Owner(number, f"/run/gantry/livelocks/job_{number}_179540000{number - 17}") for number in (17, 18))
    state = decode(LOCKS.encode())

    assert dict(state.table.modes_of(held)) == {member_lock(LockLevel.NODE, "web1"): LockMode.EXCLUSIVE}
    assert state.pending_of(waiting) is not None
    assert [owner for owner, _ in decode_may_run(MAY_RUN.encode())] == [held]


def test_every_port_of_the_settings_and_every_socket_is_told() -> None:
    page = sections(ports_page())
    ports = terms(page["Ports"])
    keys = {(table, key) for table, kind in CLASSES.items() for key in attrs.fields_dict(kind) if key.endswith("port")}

    assert len(keys) >= 6
    for table, key in keys:
        (text,) = (text for term, text in ports.items() if f"[{table}] {key}" in text)
        assert f"'{getattr(CLASSES[table](), key)} " in text
    assert set(terms(page["Sockets"])) == {
        str(SYSTEM_PATHS.socket(daemon.name)) for daemon in DAEMONS if daemon.socket is not None
    }
