"""The records of commands as files: what is read of them, and in which order (DESIGN section 13)."""

import os
from pathlib import Path

import pytest

from common.commands.spec import CommandOutcome, CommandSpec
from common.durable.atomicfile import write_files
from common.errors import DamagedFile
from common.system.livelock import Life, Livelock
from daemons.noded.commands import commandrecords
from daemons.noded.commands.commandrecords import (
    END,
    GONE,
    LIVE,
    START,
    CommandRecords,
    EndRecord,
    StartRecord,
    digest_of_command,
)
from daemons.noded.commands.nodecommands import DAY_S, CommandStates, sweep_key
from daemons.noded.core.commandphases import AcceptedStart, Records
from protocol.noded.commands import CommandPhase

KEY = "1.0.1"


@pytest.fixture
def records(tmp_path: Path) -> CommandRecords:
    records = CommandRecords(tmp_path / "commands")
    records.make_folders()
    return records


def accept(records: CommandRecords, key: str = KEY) -> None:
    write_files([records.write(key, START, StartRecord(digest="d", boot="b", output_base=3))])


def end(records: CommandRecords, key: str = KEY) -> None:
    outcome = CommandOutcome(exit_code=2, usage={"cpu_user_s": 0.5})
    write_files([records.write(key, END, EndRecord(outcome=outcome, is_over=True, begun_at=4.5))])


def test_a_runner_that_begins_during_a_look_is_not_taken_for_dead(
    records: CommandRecords, monkeypatch: pytest.MonkeyPatch
) -> None:
    accept(records)
    held: list[Livelock] = []

    def probe_just_before_it_begins(path: str) -> Life:
        livelock = Livelock.take(Path(path))
        assert livelock is not None
        os.write(livelock.fd, b"{}")
        held.append(livelock)
        return Life.DEAD

    monkeypatch.setattr(commandrecords, "probe", probe_just_before_it_begins)

    seen = records.read(KEY).records

    assert seen == Records(accepted=AcceptedStart(digest="d", boot="b"))
    held[0].remove()


def test_records_are_read_as_they_were_written(records: CommandRecords) -> None:
    accept(records)
    end(records)
    (records.path(KEY, LIVE)).write_text('{"pid": 5, "started_at": 6, "at": 7.5}')

    found = records.read(KEY)

    assert found.start is not None
    assert found.begun is not None
    assert found.end is not None
    assert (found.start.output_base, found.begun.pid, found.begun.at) == (3, 5, 7.5)
    assert (found.end.outcome.exit_code, found.end.outcome.usage, found.end.begun_at) == (2, {"cpu_user_s": 0.5}, 4.5)
    assert records.path(KEY, START).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("content", ["", "{", "[]", '{"digest": 1}'])
def test_a_damaged_record_is_no_verdict(records: CommandRecords, content: str) -> None:
    records.path(KEY, START).write_text(content)

    with pytest.raises(DamagedFile, match="is not a record of a command"):
        records.read(KEY)


def test_a_lock_is_taken_by_one_and_not_under_a_name_that_was_removed(records: CommandRecords) -> None:
    path = records.path(KEY, LIVE)
    with records.locked(KEY) as is_ours, records.locked(KEY) as is_ours_too:
        assert (is_ours, is_ours_too, Livelock.take(path)) == (True, False, None)
    with records.locked(KEY):
        path.unlink()
        livelock = Livelock.take(path)
        assert livelock is not None
        with records.locked(KEY) as is_ours:
            assert not is_ours
    livelock.remove()


def test_no_word_of_a_command_is_kept_and_equal_commands_have_one_digest(records: CommandRecords) -> None:
    one, other = (CommandSpec(argv=("true",), env={"A": "1", "B": value}) for value in ("2", "secret"))
    again = CommandSpec(argv=("true",), env={"B": "2", "A": "1"})

    assert digest_of_command(one) == digest_of_command(again) != digest_of_command(other)
    assert "secret" not in digest_of_command(other)


def test_old_ends_become_notes_and_old_notes_go(records: CommandRecords) -> None:
    for key in ("1.0.1", "2.0.1", "3.0.1"):
        accept(records, key)
        end(records, key)
    long_ago = records.path("1.0.1", END).stat().st_mtime - 2 * DAY_S
    for kind in (START, END):
        os.utime(records.path("1.0.1", kind), (long_ago, long_ago))
    records.forget("3.0.1")
    for key in ("4.0.1", "5.0.1"):
        records.path(key, LIVE).touch()
    for path in (records.path("3.0.1", GONE), records.path("4.0.1", LIVE)):
        os.utime(path, (long_ago, long_ago))

    for key in records.all_keys():
        sweep_key(records, key, "b", DAY_S)

    left = sorted(path.name for path in records.folder.iterdir())
    assert left == ["1.0.1.gone", "2.0.1.end", "2.0.1.start", "5.0.1.live", "output"]


def test_a_damaged_record_does_not_keep_the_others_from_being_swept(records: CommandRecords) -> None:
    for key in (KEY, "2.0.1"):
        accept(records, key)
        end(records, key)
    records.path(KEY, END).write_text("foreign")
    long_ago = records.path(KEY, END).stat().st_mtime - 2 * DAY_S
    for path in records.folder.glob("*.*"):
        os.utime(path, (long_ago, long_ago))

    for key in records.all_keys():
        sweep_key(records, key, "b", DAY_S)

    assert records.path(KEY, END).read_text() == "foreign"
    assert records.path("2.0.1", GONE).exists()


def test_a_damaged_record_counts_as_running_and_does_not_hide_the_other_commands(
    records: CommandRecords, caplog: pytest.LogCaptureFixture
) -> None:
    for key in (KEY, "2.0.1"):
        accept(records, key)
        end(records, key)
    records.path(KEY, END).write_text("foreign")
    states = CommandStates(records)

    told = [states.states_after("") for _ in range(2)]

    for listed in told:
        assert [(each.key, each.phase) for each in listed] == [
            (KEY, CommandPhase.RUNNING),
            ("2.0.1", CommandPhase.ENDED),
        ]
    # once
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [("ERROR", "command.unreadable")]
