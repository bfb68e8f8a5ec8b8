"""`gantry user` and `gantry token`: who may call over HTTP. Source: issue 12, deliverable 1."""

import getpass
import io
import json
import os
import pty
import select
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.gantry.main import group
from cli.program import exit_code
from common.errors import Denied
from common.paths import Paths
from common.webaccess.passwords import Scrypt, is_right, read_password
from common.webaccess.tokens import NewToken, TokensFile, TokenText
from common.webaccess.users import User, UsersFile
from tests.cli.command import Ended, argv, environment, run
from tests.support.accounts.users import ALICE, BOB, needs_root, uid_of
from tests.support.wait import PATIENCE_S

ME = getpass.getuser()
# as a Ganeti had it
OLD = "# rapi users\n\njack abc123 read,odd\n  short\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "gantry.toml").write_text("[rapid]\nenabled = true\n")
    Paths.under_root(tmp_path).make_folders()
    return tmp_path


@pytest.fixture
def open_root() -> Iterator[Path]:
    """A root that other users reach, which pytest's folders are not."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        root.chmod(0o755)
        Paths.under_root(root).make_folders()
        yield root


def gantry(root: Path, *words: object, stdin: str = "") -> Ended:
    return run("gantry", "--root", root, *words, stdin=stdin)


def test_a_user_is_added_changed_and_removed_and_the_rest_of_the_file_stays(root: Path) -> None:
    paths = Paths.under_root(root)
    paths.rapi.mkdir()
    paths.rapi_users.write_text(OLD)

    added = gantry(
        *(root, "user", "add", "jane", "--role", "operate", "--right", "jobs.read", "--unix-user", ME),
        *("--password-file", "-"),
        stdin="s3cret word\nmore\n",
    )
    assert (added.code, added.out) == (0, "user 'jane' is added\n"), added.err
    jane = UsersFile(paths).users()["jane"]
    assert jane.options == ("operate", "jobs.read", f"unix={ME}")
    assert isinstance(read_password(jane.password), Scrypt)
    assert is_right(read_password(jane.password), "jane", "s3cret word")

    modified = gantry(root, "user", "modify", "jack", "--role", "submit", "--no-right", "read")
    assert modified.code == 0, modified.err
    removed = gantry(root, "user", "remove", "jane", "jim")
    assert (removed.code, removed.out) == (1, "user 'jane' is removed\n")
    assert removed.err == "error: there is no user 'jim'; see them with: gantry user list\n"

    assert paths.rapi_users.read_text() == OLD.replace("read,odd", "submit,odd")


def test_the_list_tells_rights_and_forms_and_no_password(root: Path) -> None:
    paths = Paths.under_root(root)
    paths.rapi.mkdir()
    paths.rapi_users.write_text("jack abc123 write,odd\nci {HA1}54c1 jobs.read,unix=ci\nno {x}y\n")

    assert gantry(root, "user", "list").out.splitlines() == [
        "NAME  ROLE     RIGHTS     UNIX USER  PASSWORD",
        "jack  operate  -          -          clear text",
        "ci    -        jobs.read  ci         digest",
        "no    -        -          -          unknown: x",
    ]
    rows = json.loads(gantry(root, "user", "list", "--output", "json").out)
    assert rows[0] == {
        "name": "jack",
        "role": "operate",
        "rights": [],
        "unix_user": None,
        "password": "clear text",
        "unknown_options": ["odd"],
    }


def test_a_password_is_asked_for_twice_on_the_terminal_and_not_shown(root: Path) -> None:
    paths = Paths.under_root(root)
    UsersFile(paths).add(User("jack", "old", ("read",)))
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        argv("gantry", "--root", root, "user", "password", "jack"),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment(),
        start_new_session=True,
    ) as process:
        os.close(theirs)
        shown = ""
        for prompt, typed in (("password: ", "one"), ("more: ", "xyzzy"), ("password: ", "new"), ("more: ", "new")):
            shown += _until(ours, prompt)
            os.write(ours, f"{typed}\n".encode())
        shown += _until(ours, "new password\r\n")
        assert process.wait(PATIENCE_S) == 0
    os.close(ours)

    assert "the two are not the same" in shown
    assert "xyzzy" not in shown
    assert is_right(read_password(UsersFile(paths).users()["jack"].password), "jack", "new")


def test_a_token_is_shown_once_listed_and_revoked(root: Path) -> None:
    file = TokensFile(Paths.under_root(root))

    created = gantry(root, "token", "create", "--for", "ci", "--rights", "jobs.submit, jobs.read", "--run-as", ME)

    assert created.code == 0, created.err
    text = TokenText.parse(created.out.strip())
    assert text is not None
    assert f"token '{text.id}' is for 'ci', until 2" in created.err
    (token,) = file.tokens()
    assert (token.rights, token.run_as) == (("jobs.submit", "jobs.read"), ME)
    assert token.expires_at is not None
    assert token.expires_at - token.made_at == 90 * 86400
    assert text.secret not in file.path.read_text()
    assert file.path.stat().st_mode & 0o777 == 0o600

    again = gantry(root, "token", "create", "--for", "ci", "--rights", "read", "--expires", "never")
    assert (again.code, again.out) == (1, "")
    assert again.err == f"error: the token '{text.id}' is for 'ci' already; revoke it, or take another name\n"

    assert gantry(root, "token", "revoke", text, "1badcafe").code == 1
    (row,) = json.loads(gantry(root, "token", "list", "--output", "json").out)
    assert (row["id"], row["state"], "digest" in row) == (text.id, "revoked", False)
    assert gantry(root, "token", "list").out.splitlines()[1].split()[:3] == [text.id, "ci", "revoked"]


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        ("user add jane", 2, "name at least one right, of read, submit, operate, admin, jobs.read"),
        ("user add a:b --role read", 2, "'a:b' cannot be the name of a user"),
        ("user add jane --role read", 2, "there is no terminal to ask for the password; use --password-file"),
        ("user add jane --role read --password-file -", 2, "the password is empty"),
        ("user add jane --role read --unix-user no-such-login", 2, "there is no user 'no-such-login' on this machine"),
        ("user modify jane", 2, "nothing to change"),
        ("user password jane", 1, "there is no user 'jane'; see them with: gantry user list"),
        ("token create --for ci --rights jobs.all", 2, "there is no right 'jobs.all'; known are read, submit"),
        ("token create --for ci --rights read --expires soon", 2, "'soon' is not a duration"),
    ],
)
def test_a_mistake_is_told_with_the_next_step_and_changes_nothing(
    root: Path, words: str, code: int, text: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))

    assert exit_code(group, "gantry", ["--root", str(root), *words.split()]) == code

    out, err = capsys.readouterr()
    assert out == ""
    assert text in err
    assert not Paths.under_root(root).rapi.exists()


# adds the users whom its arguments name, one after the other
EDITOR = """
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from common.paths import Paths
from common.webaccess.users import UsersFile
from common.webaccess.users import User
users = UsersFile(Paths.under_root(Path(sys.argv[1])))
for name in sys.argv[2:]:
    users.add(User(name, "x"))
"""


def test_two_editors_do_not_undo_each_others_change(root: Path) -> None:
    names = [f"user{number}" for number in range(40)]
    editors = [
        subprocess.Popen([sys.executable, "-P", "-c", EDITOR, root, *names[start::2]], env=environment())
        for start in range(2)
    ]

    assert [editor.wait(PATIENCE_S) for editor in editors] == [0, 0]
    assert set(UsersFile(Paths.under_root(root)).users()) == set(names)


@needs_root
def test_root_leaves_owner_and_mode_of_another_users_folder_as_they_are(open_root: Path) -> None:
    paths = Paths.under_root(open_root)
    paths.rapi.mkdir()
    paths.rapi_users.write_text(OLD)
    paths.rapi_users.chmod(0o644)
    os.chown(paths.rapi, uid_of(ALICE), 0)

    UsersFile(paths).remove("jack")
    TokensFile(paths).create(NewToken("ci", ("read",), None), 0.0)

    status = paths.rapi_users.stat()
    assert (status.st_uid, status.st_mode & 0o777) == (uid_of(ALICE), 0o644)
    assert (paths.rapi_tokens.stat().st_uid, os.geteuid()) == (uid_of(ALICE), 0)


@needs_root
def test_who_names_a_unix_user_as_whom_no_command_can_run_is_warned(
    open_root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    UsersFile(Paths.under_root(open_root)).add(User("jack", "x", ("read",)))

    def modify(login: str) -> str:
        words = ["--root", str(open_root), "user", "modify", "jack", "--unix-user", login]
        assert exit_code(group, "gantry", words) == 0
        return capsys.readouterr().err

    assert "who may do everything" in modify("root")
    assert "are refused" not in modify(ALICE)
    os.chown(open_root / "lib", uid_of(BOB), 0)
    assert f"commands as '{ALICE}' are refused while the daemons run as user {uid_of(BOB)}" in modify(ALICE)
    assert "are refused" not in modify(BOB)


@needs_root
def test_a_stranger_can_name_nobody(open_root: Path) -> None:
    os.seteuid(uid_of(ALICE))
    try:
        with pytest.raises(Denied, match=r"only root and the owner of .* may say who calls over HTTP"):
            UsersFile(Paths.under_root(open_root)).add(User("mallory", "x", ("admin",)))
    finally:
        os.seteuid(0)

    assert not Paths.under_root(open_root).rapi.exists()


def test_a_damaged_file_of_tokens_is_not_replaced(root: Path) -> None:
    paths = Paths.under_root(root)
    paths.rapi.mkdir()
    paths.rapi_tokens.write_text("{")

    ended = gantry(root, "token", "create", "--for", "ci", "--rights", "read")

    assert (ended.code, ended.out) == (1, "")
    assert "restore it, or remove it and make new tokens" in ended.err
    assert paths.rapi_tokens.read_text() == "{"


def _until(terminal: int, end: str) -> str:
    """What a program shows on its terminal, up to this end."""
    shown = ""
    while not shown.endswith(end):
        assert select.select([terminal], [], [], PATIENCE_S)[0], f"no '{end}' after: {shown}"
        shown += os.read(terminal, 1).decode()
    return shown
