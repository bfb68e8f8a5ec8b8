"""deploy/etcd: a real etcd takes the settings, the certificates and the user, as its README says."""

import base64
import json
import re
import shutil
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs
import pytest

from tests.support.etcds.etcd import ETCD_SERVER
from tests.support.etcds.etcdfixtures import leave_out
from tests.support.sockets.ports import free_port
from tests.support.wait import wait_until

DEPLOY = Path(__file__).parents[3] / "deploy" / "etcd"
ETCD = shutil.which("etcd")

needs_etcd = pytest.mark.usefixtures("tools")


@pytest.fixture(scope="module")
def tools() -> None:
    """Leave a test out that lacks a program which deploy/etcd/README.md lets an operator install."""
    programs = ("etcd", "etcdctl", "openssl")
    if missing := [program for program in programs if shutil.which(program) is None]:
        leave_out(f"not installed: {', '.join(missing)}; {ETCD_SERVER}, etcd-client and openssl")


@attrs.frozen
class Member:
    """A member with the settings of `deploy/etcd`, on loopback."""

    url: str
    # where it tells its numbers, and its health
    metrics: str
    tls: Path

    def call(self, path: str, body: object, *, token: str = "", has_certificate: bool = True) -> tuple[int, str]:
        """Status and body of a request to the gateway."""
        context = ssl.create_default_context(cafile=str(self.tls / "ca.crt"))
        if has_certificate:
            context.load_cert_chain(self.tls / "gantry.crt", self.tls / "gantry.key")
        headers = {"Authorization": token} if token else {}
        request = urllib.request.Request(f"{self.url}{path}", json.dumps(body).encode(), headers)
        try:
            with urllib.request.urlopen(request, context=context, timeout=30) as reply:
                return reply.status, reply.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def is_ready(self) -> bool:
        try:
            return self.call("/v3/kv/range", {"key": coded("x")})[0] == 200
        except OSError:
            return False

    @property
    def environment(self) -> dict[str, str]:
        return {
            "PATH": "/usr/bin:/bin",
            "ETCDCTL_ENDPOINTS": self.url,
            "ETCDCTL_CACERT": str(self.tls / "ca.crt"),
            "ETCDCTL_CERT": str(self.tls / "gantry.crt"),
            "ETCDCTL_KEY": str(self.tls / "gantry.key"),
        }


def coded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def settings_for(folder: Path, tls: Path, ports: list[int]) -> str:
    """The shipped settings with this test's places; all else stays as it is."""
    client, peer, metrics = ports
    text = (DEPLOY / "etcd.yml").read_text()
    changes = (
        (r"^initial-cluster: .*", f"initial-cluster: etcd1=https://127.0.0.1:{peer}"),
        (r"https://10\.0\.0\.1:2380", f"https://127.0.0.1:{peer}"),
        (r"https://10\.0\.0\.1:2379", f"https://127.0.0.1:{client}"),
        (r"http://127\.0\.0\.1:2381", f"http://127.0.0.1:{metrics}"),
        (r"/var/lib/gantry-etcd", str(folder / "data")),
        (r"/etc/gantry-etcd/member", str(tls / "etcd1")),
        (r"/etc/gantry-etcd/ca.crt", str(tls / "ca.crt")),
    )
    for pattern, replacement in changes:
        text, count = re.subn(pattern, replacement, text, flags=re.M)
        assert count, pattern
    return text


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory, tools: None) -> Path:
    folder = tmp_path_factory.mktemp("tls") / "made"
    subprocess.run([DEPLOY / "make-certificates", folder, "etcd1=127.0.0.1"], check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def member(tmp_path_factory: pytest.TempPathFactory, tls: Path) -> Iterator[Member]:
    with running(tmp_path_factory.mktemp("etcd"), tls) as member:
        yield member


@pytest.fixture
def member_for_users(tmp_path: Path, tls: Path) -> Iterator[Member]:
    """One that others do not use: it serves nobody without a name once it has users."""
    with running(tmp_path, tls) as member:
        yield member


@contextmanager
def running(folder: Path, tls: Path) -> Iterator[Member]:
    ports = [free_port() for _ in range(3)]
    (folder / "etcd.yml").write_text(settings_for(folder, tls, ports))
    assert ETCD is not None
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([ETCD, "--config-file", folder / "etcd.yml"], stdout=log, stderr=log)
    try:
        member = Member(f"https://127.0.0.1:{ports[0]}", f"http://127.0.0.1:{ports[2]}", tls)
        wait_until(member.is_ready, what="etcd to reply", state=(folder / "log").read_text)
        yield member
    finally:
        process.kill()
        process.wait()


@needs_etcd
def test_the_gateway_of_a_member_with_these_settings_serves_gantry_and_nobody_else(member: Member) -> None:
    assert member.call("/v3/kv/put", {"key": coded("/gantry/a"), "value": coded("1")})[0] == 200
    with pytest.raises((ssl.SSLError, OSError)):
        member.call("/v3/kv/range", {"key": coded("/gantry/a")}, has_certificate=False)


@needs_etcd
def test_the_user_may_do_what_gantry_needs_and_nothing_else(member_for_users: Member, tmp_path: Path) -> None:
    member = member_for_users
    for name in ("root", "gantry"):
        (tmp_path / name).write_text(f"secret-of-{name}\n")

    made = subprocess.run(
        [DEPLOY / "make-user", tmp_path / "root", tmp_path / "gantry"],
        env=member.environment,
        check=False,
        capture_output=True,
        text=True,
    )

    assert made.returncode == 0, made.stderr
    status, said = member.call("/v3/auth/authenticate", {"name": "gantry", "password": "secret-of-gantry"})
    assert status == 200
    token = json.loads(said)["token"]
    assert member.call("/v3/kv/put", {"key": coded("/gantry/a"), "value": coded("2")}, token=token)[0] == 200
    assert member.call("/v3/maintenance/status", {}, token=token)[0] == 200
    assert member.call("/v3/cluster/member/list", {}, token=token)[0] == 200
    assert member.call("/v3/maintenance/alarm", {"action": "GET"}, token=token)[0] == 200
    assert member.call("/v3/kv/compaction", {"revision": "2"}, token=token)[0] == 200
    assert member.call("/v3/kv/put", {"key": coded("/other/a"), "value": coded("2")}, token=token)[0] == 403
    assert member.call("/v3/maintenance/defragment", {}, token=token)[0] != 200
    assert member.call("/v3/kv/put", {"key": coded("/gantry/a"), "value": coded("3")})[0] in (400, 403)


@needs_etcd
def test_etcd_tells_every_number_that_an_alert_asks_for(member: Member) -> None:
    rules = (DEPLOY.parent / "monitoring" / "gantry-alerts.yml").read_text()
    asked = set(re.findall(r"\betcd_[a-z0-9_]+", rules))

    with urllib.request.urlopen(f"{member.metrics}/metrics", timeout=30) as reply:
        told = set(re.findall(r"^etcd_[a-z0-9_]+", reply.read().decode(), re.M))

    assert len(asked) >= 5
    assert asked - told == set()


@needs_etcd
def test_etcd_knows_every_setting() -> None:
    # in the file an unknown key is passed over in silence
    assert ETCD is not None
    told = subprocess.run([ETCD, "--help"], capture_output=True, text=True, check=False)
    known = set(re.findall(r"--([a-z0-9-]+)", told.stdout + told.stderr)) | {
        *("enable-grpc-gateway", "logger", "log-level"),
        *("client-transport-security", "peer-transport-security"),
    }

    keys = re.findall(r"^\s*([a-z0-9-]+):", (DEPLOY / "etcd.yml").read_text(), re.M)

    assert len(keys) > 20
    assert [key for key in keys if key not in known] == []


@needs_etcd
def test_no_certificate_of_a_client_has_a_common_name_and_what_is_there_stays(tls: Path) -> None:
    def subject(name: str) -> str:
        words = ("openssl", "x509", "-in", str(tls / name), "-noout", "-subject")
        return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()

    before = (tls / "etcd1.crt").read_bytes()
    again = subprocess.run(
        [DEPLOY / "make-certificates", tls, "etcd1=127.0.0.1", "etcd2=db2.example.com"],
        check=True,
        capture_output=True,
        text=True,
    )

    assert subject("gantry.crt") == subject("etcd1.crt") == "subject="
    assert (again.stdout, (tls / "etcd1.crt").read_bytes()) == (f"{tls}/etcd2.crt\n", before)
    assert (tls / "gantry.key").stat().st_mode & 0o077 == 0


def test_a_password_that_etcdctl_would_cut_short_is_refused(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("secret of root\n")

    refused = subprocess.run(
        [DEPLOY / "make-user", tmp_path / "password", tmp_path / "password"],
        check=False,
        capture_output=True,
        text=True,
    )

    assert refused.returncode == 2
    assert "a password is empty or has a blank" in refused.stderr


def test_a_member_without_an_address_is_refused() -> None:
    refused = subprocess.run([DEPLOY / "make-certificates", "x", "etcd1"], check=False, capture_output=True, text=True)

    assert refused.returncode == 2
    assert "'etcd1' is not MEMBER=ADDRESS" in refused.stderr


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd's tools are not installed")
def test_systemd_accepts_the_unit_of_a_member(tmp_path: Path) -> None:
    unit = tmp_path / "gantry-etcd.service"
    unit.write_text((DEPLOY / unit.name).read_text().replace("/usr/bin/etcd ", "/bin/true "))

    said = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True, timeout=60, check=False
    )

    assert [line for line in said.stderr.splitlines() if "gantry" in line] == []
