"""Settings are found, read and checked key by key; the sample tells the truth."""

import pwd
import re
import tomllib
from collections.abc import Sequence
from pathlib import Path

import attrs
import pytest

import common.settingsfile
from common.access import Role
from common.errors import InvalidRequest, NotFound, Unavailable
from common.featuresettings import (
    EtcdSettings,
    HealthSettings,
    KeeperdSettings,
    NotifySettings,
    PluginsSettings,
    RapidSettings,
    RetentionSettings,
)
from common.paths import Paths
from common.settings import (
    AccessSettings,
    ClusterSettings,
    ConfdSettings,
    GanetiSettings,
    JobprocSettings,
    LimitsSettings,
    LuxidSettings,
    MondSettings,
    NodedSettings,
    Settings,
    Uid,
    WconfdSettings,
)
from common.settingsfile import ALL_READERS, find_installation, load_settings, read_despite_faults
from tests.support.accounts.userlookups import without_descriptors

DEPLOY = Path(__file__).parents[3] / "deploy"
SAMPLE = DEPLOY / "gantry.toml.sample"
PORTS = DEPLOY / "systemd" / "PORTS.md"


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stands in for the system's places: `etc.toml`, `lib`, `run`, `log` in the folder."""
    folder = tmp_path / "system"
    folder.mkdir()
    monkeypatch.setattr(common.settingsfile, "SYSTEM_FILE", folder / "etc.toml")
    monkeypatch.setattr(common.settingsfile, "SYSTEM_PATHS", Paths.under_root(folder))
    return folder


def read(root: Path, text: str) -> Settings:
    (root / "gantry.toml").write_text(text)
    return load_settings(root, {})


def test_a_user_who_cannot_be_looked_up_now_is_not_taken_for_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    _, read_users = ALL_READERS[tuple[Uid, ...]]
    without_descriptors(monkeypatch)

    with pytest.raises(Unavailable, match="the users of this machine cannot be read now"):
        read_users(["root"])


def test_what_stops_the_daemons_does_not_depend_on_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gantry.toml").write_text('[access]\nuids = ["root"]\n[luxid]\nmax_running_jobs = 7\n')
    without_descriptors(monkeypatch)
    with pytest.raises(Unavailable):
        load_settings(tmp_path, {})

    found = read_despite_faults(tmp_path, {})

    assert (found.luxid.max_running_jobs, found.access) == (7, AccessSettings())


def test_without_a_file_all_is_default(tmp_path: Path) -> None:
    assert load_settings(tmp_path, {}) == Settings(Paths.under_root(tmp_path))


def test_the_file_of_the_root_changes_what_it_names(tmp_path: Path) -> None:
    settings = read(
        tmp_path,
        """
        paths.log = "/var/log/other"
        luxid = { max_running_jobs = 7, kill_grace_s = 3, executor = ["/usr/lib/exec", "-v"] }
        access = { uids = [1000, 1001], socket_mode = 0o600 }
        """,
    )

    assert settings.source == tmp_path / "gantry.toml"
    assert settings.paths == attrs.evolve(Paths.under_root(tmp_path), log=Path("/var/log/other"))
    assert settings.luxid == LuxidSettings(max_running_jobs=7, kill_grace_s=3.0, executor=("/usr/lib/exec", "-v"))
    assert settings.access == AccessSettings(uids=(Uid(1000), Uid(1001)), socket_mode=0o600)
    assert settings.wconfd == WconfdSettings()


def test_users_and_groups_have_names_or_numbers(tmp_path: Path) -> None:
    settings = read(tmp_path, '[access]\nuids = [1000, "root"]\ngids = ["root", 7]')

    assert (settings.access.uids, settings.access.gids) == ((1000, 0), (0, 7))


def test_roles_are_given_to_users_and_groups_by_name_or_number(tmp_path: Path) -> None:
    settings = read(tmp_path, '[access]\nread = ["@root", "@7"]\nsubmit = [1003, "root"]\nadmin = ["@0"]\nuids = [9]')

    access = settings.access.access(own_uid=5)

    assert access.uids == {1003: Role.SUBMIT, 0: Role.SUBMIT, 9: Role.FULL}
    assert access.gids == {0: Role.ADMIN, 7: Role.READ}
    assert access.is_shared
    assert not read(tmp_path, "[access]\ngids = [7]").access.access(own_uid=5).is_shared


@pytest.fixture
def made_by_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """The users of the package are on this machine."""
    numbers = {"gantry": 900, "gantry-rapid": 901, "gantry-confd": 902, "gantry-mond": 903}

    def user_named(login: str) -> pwd.struct_passwd | None:
        return pwd.struct_passwd((login, "x", numbers[login], 900, "", "/", "/")) if login in numbers else None

    monkeypatch.setattr("common.settings.user_named", user_named)


@pytest.mark.usefixtures("made_by_the_package")
def test_daemons_have_users_of_their_own_where_the_package_has_made_them(tmp_path: Path) -> None:
    of_the_system = Settings(Paths.under_root(tmp_path))

    access = of_the_system.access_table(900)

    assert (access.apart, access.gateway) == (frozenset({901, 902, 903}), 901)
    # they work with what is the daemons' user's; that user works with nothing of theirs
    assert [of_the_system.owners(uid) for uid in (901, 903)] == [frozenset({901, 900}), frozenset({903, 900})]
    assert [of_the_system.owners(uid) for uid in (900, 7, 0)] == [frozenset({900}), frozenset({7}), frozenset({0})]


@pytest.mark.usefixtures("made_by_the_package")
def test_a_private_installation_has_one_user(tmp_path: Path) -> None:
    private = attrs.evolve(Settings(Paths.under_root(tmp_path)), root=tmp_path)

    access = private.access_table(1000)

    assert (access.apart, access.gateway, private.owners(901)) == (frozenset(), None, frozenset({901}))


def test_a_given_root_comes_before_the_environment_before_the_system(tmp_path: Path, system: Path) -> None:
    environ = {"GANTRY_ROOT": str(tmp_path / "env")}

    assert load_settings(tmp_path / "arg", environ).paths == Paths.under_root(tmp_path / "arg")
    assert load_settings(None, environ).paths == Paths.under_root(tmp_path / "env")
    assert load_settings(None, {}).paths == Paths.under_root(system)
    assert load_settings(None, {"GANTRY_ROOT": ""}).paths == Paths.under_root(system)


def test_the_systems_file_is_read(system: Path) -> None:
    (system / "etc.toml").write_text('[paths]\ndata = "/var/lib/ganeti"\n')

    settings = load_settings(None, {})

    assert settings.source == system / "etc.toml"
    assert settings.paths.data == Path("/var/lib/ganeti")
    assert settings.paths.run == system / "run"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "[luxid]\nmax_runing_jobs = 3",
            r"unknown key 'max_runing_jobs' in '\[luxid\]'; did you mean 'max_running_jobs'\?",
        ),
        ("[luxid]\nqqq = 3", r"unknown key 'qqq' in '\[luxid\]'; known are max_queued_jobs, "),
        ("[luxd]\n", r"unknown table '\[luxd\]'; did you mean 'luxid'\?"),
        ("luxid = 3", r"'luxid' is a table, write '\[luxid\]'"),
        ("[paths]\nlogs = '/x'", r"unknown key 'logs' in '\[paths\]'; did you mean 'log'\?"),
        ("[paths]\nlog = 'x'", r"'log' in '\[paths\]' must be an absolute path in quotes, got 'x'"),
        ("[paths]\nlog = 3", r"'log' in '\[paths\]' must be an absolute path in quotes, got 3"),
        ("[luxid]\nmax_running_jobs = '3'", r"'max_running_jobs' in '\[luxid\]' must be a whole number, got '3'"),
        ("[luxid]\nmax_running_jobs = true", r"must be a whole number, got True"),
        ("[luxid]\nmax_running_jobs = 2.0", r"must be a whole number, got 2.0"),
        ("[cluster]\nreplication = 'all'", r"got 'all': replication must be one of none, nodes, etcd"),
        ("[noded]\nport = 65536", r"got 65536: port must be a port from 1 to 65535"),
        ("[etcd]\nprefix = '/one'", r"got '/one': prefix must end with '/', as in /gantry/"),
        ("[luxid]\nmax_running_jobs = 0", r"got 0: max_running_jobs must be greater than 0"),
        ("[luxid]\nkill_grace_s = -1", r"got -1: kill_grace_s must be at least 0"),
        ("[luxid]\nkill_grace_s = nan", r"got nan: kill_grace_s must be at least 0"),
        ("[luxid]\nexecutor = 'prog'", r"'executor' in '\[luxid\]' must be a list of strings, got 'prog'"),
        ("[access]\nuids = [1.5]", r"'uids' in '\[access\]' must be a list of users, by name or number, got \[1.5\]"),
        ("[access]\nuids = [-1]", r"'uids' in '\[access\]' got \[-1\]: no user has the number -1"),
        ("[access]\nsubmit = [4294967295]", r"no user has the number 4294967295"),
        ("[access]\nread = ['@no-such-group']", r"there is no group 'no-such-group' on this machine"),
        (
            "[access]\nsubmit = 'root'",
            r"'submit' in '\[access\]' must be a list of users and @groups, by name or number",
        ),
        ("[access]\nsocket_mode = 1660", r"socket_mode must be a file mode such as 0o660"),
        ("[luxid\n", r"not valid TOML: .*line 1"),
        *(
            (f"[rapid]\nallowed_origins = ['https://a', '{origin}']", f"'{re.escape(origin)}' is no origin as browsers")
            for origin in (
                *("*", "null", "", "tools.example", "https://tools.example/", "https://Tools.example", "ftp://x"),
                *("https://x:443", "http://x:80", "https://x:0", "https://x:65536", "https://a@x", "https://*.example"),
            )
        ),
        ("[rapid]\nallowed_origins = '*'", r"must be a list of strings"),
    ],
)
def test_what_is_wrong_is_refused_with_file_table_key_and_value(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InvalidRequest, match=message) as refused:
        read(tmp_path, text)

    assert str(refused.value).startswith(f"{tmp_path}/gantry.toml: ")


def test_sites_whose_pages_may_call_are_read_as_browsers_write_them(tmp_path: Path) -> None:
    origins = ("https://tools.example.org", "http://localhost:8080", "http://[::1]:3000", "http://x:443")

    found = read(tmp_path, f"rapid.allowed_origins = {list(origins)}")

    assert found.rapid.allowed_origins == origins


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "gantry.toml").write_bytes(b"\xff")

    with pytest.raises(InvalidRequest, match="not valid TOML"):
        load_settings(tmp_path, {})


def test_a_client_finds_the_installation_it_names(tmp_path: Path, system: Path) -> None:
    assert find_installation(tmp_path, {}).paths == Paths.under_root(tmp_path)
    assert find_installation(None, {"GANTRY_ROOT": str(tmp_path)}).paths == Paths.under_root(tmp_path)


@pytest.mark.parametrize("trace", ["etc.toml", "run/socket/ganeti-query"])
def test_a_client_finds_the_systems_installation_by_file_or_socket(system: Path, trace: str) -> None:
    (system / trace).parent.mkdir(parents=True, exist_ok=True)
    (system / trace).touch()

    assert find_installation(None, {}).paths == Paths.under_root(system)


def test_a_client_that_finds_nothing_is_told_every_place_and_what_to_do(system: Path) -> None:
    with pytest.raises(NotFound) as missing:
        find_installation(None, {})

    message = str(missing.value)
    for part in ("--root", "GANTRY_ROOT", f"{system}/etc.toml", f"{system}/run/socket/ganeti-query"):
        assert part in message
    assert message.endswith("start one with: gantry --root DIR up")


def test_the_list_of_ports_names_each_with_its_default() -> None:
    rows = re.findall(r"^\| (\d+) (TCP|UDP) \| `gantry-\w+`, `\[(\w+)\] (\w+)`", PORTS.read_text(), flags=re.MULTILINE)
    settings = Settings(Paths.under_root(Path("/nowhere")))

    assert [(table, key, int(port)) for port, _, table, key in rows] == [
        (table, key, getattr(getattr(settings, table), key)) for _, _, table, key in rows
    ]
    found = {(table, key) for _, _, table, key in rows}
    own = {(name, field.name) for name in attrs.fields_dict(Settings) for field in fields_of(settings, name)}
    assert found == {(table, key) for table, key in own if key.endswith("port")}


def fields_of(settings: Settings, name: str) -> Sequence["attrs.Attribute[object]"]:
    value = getattr(settings, name)
    return attrs.fields(type(value)) if attrs.has(type(value)) else ()


def test_the_sample_has_every_key_with_its_default() -> None:
    uncommented = re.sub(r"^#(?=\w+ = )", "", SAMPLE.read_text(), flags=re.MULTILINE)

    tables = tomllib.loads(uncommented)

    expected = {
        "paths": {"data": "/var/lib/gantry", "run": "/run/gantry", "log": "/var/log/gantry"},
        "luxid": attrs.asdict(LuxidSettings()),
        "wconfd": attrs.asdict(WconfdSettings()),
        "jobproc": attrs.asdict(JobprocSettings()),
        "limits": attrs.asdict(LimitsSettings()),
        "access": attrs.asdict(AccessSettings()),
        "ganeti": attrs.asdict(GanetiSettings()),
        "cluster": attrs.asdict(ClusterSettings()),
        "noded": attrs.asdict(NodedSettings()),
        "rapid": attrs.asdict(RapidSettings()),
        "confd": attrs.asdict(ConfdSettings()),
        "mond": attrs.asdict(MondSettings()),
        "etcd": attrs.asdict(EtcdSettings()),
        "keeperd": attrs.asdict(KeeperdSettings()),
        "retention": attrs.asdict(RetentionSettings()),
        "notify": attrs.asdict(NotifySettings()),
        "health": attrs.asdict(HealthSettings()),
        "plugins": attrs.asdict(PluginsSettings()),
    }
    assert tables == {
        name: {key: list(value) if isinstance(value, tuple) else value for key, value in table.items()}
        for name, table in expected.items()
    }


def test_the_sample_as_it_stands_changes_nothing(tmp_path: Path) -> None:
    settings = read(tmp_path, SAMPLE.read_text())

    assert attrs.evolve(settings, source=None) == Settings(Paths.under_root(tmp_path))


def test_each_key_of_the_sample_is_explained() -> None:
    blocks = SAMPLE.read_text().split("\n\n")
    keys = [block for block in blocks if re.search(r"^#\w+ = ", block, re.MULTILINE)]

    assert keys
    for block in keys:
        assert re.search(r"^# \w", block, re.MULTILINE), f"no explanation: {block}"


def test_the_file_for_a_ganeti_cluster_is_read(tmp_path: Path) -> None:
    # group and user are there where Ganeti is installed
    text = (DEPLOY / "ganeti" / "gantry.toml").read_text()
    settings = read(
        tmp_path, text.replace("gnt-daemons", "root").replace("gnt-masterd", "root").replace("gnt-rapi", "root")
    )

    assert settings.paths.query_socket == Path("/run/ganeti/socket/ganeti-query")
    assert settings.luxid.executor[-1].endswith("exec.py")


@pytest.mark.parametrize(
    ("mond", "noded", "address"),
    [
        ("", "", "127.0.0.1"),
        ("", "192.0.2.1", "127.0.0.1"),
        ("", "::", "127.0.0.1"),
        # nodes that share a machine
        ("", "127.0.0.5", "127.0.0.5"),
        ("0.0.0.0", "192.0.2.1", "0.0.0.0"),
        ("192.0.2.7", "127.0.0.5", "192.0.2.7"),
    ],
)
def test_mond_is_for_this_machine_alone_unless_its_settings_say_otherwise(
    tmp_path: Path, mond: str, noded: str, address: str
) -> None:
    (tmp_path / "gantry.toml").write_text(f'[mond]\naddress = "{mond}"\n[noded]\naddress = "{noded}"\n')

    assert load_settings(tmp_path).mond_address == address
