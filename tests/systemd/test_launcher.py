"""Commands as root and as their submitters: the launcher, its rules, who may not use it (DESIGN sections 5, 7, 16)."""

import json
import shlex
from collections.abc import Iterator, Mapping
from typing import Final

import pytest

from tests.support.wait import wait_until
from tests.systemd.conftest import MakeContainer
from tests.systemd.containers.container import Container
from tests.systemd.containers.tree import PACKAGE
from tests.systemd.engine import PATIENCE_S, Engine
from tests.systemd.nextversion import upgrade

# a cluster whose commands may also run under the node daemon of the only node
_SETTINGS: Final = """[cluster]
replication = "nodes"
[rapid]
enabled = true
address = "127.0.0.1"
[mond]
enabled = "yes"
[confd]
enabled = "yes"
[access]
submit = ["alice", "@web"]
"""
RULES: Final = "/etc/gantry/launcher.toml"
SOCKET: Final = "/run/gantry-launcher/socket"
# asks the launcher for the commands of some livelock, and prints its reply
_ASK: Final = """
import socket
sock = socket.socket(socket.AF_UNIX)
sock.connect("/run/gantry-launcher/socket")
sock.sendall(b'{"method":"endCommands","args":[0,0]}\\x03')
print(sock.recv(4096).decode())
"""


@pytest.fixture(scope="module")
def machine(make_container: MakeContainer) -> Iterator[Engine]:
    """An installation with a launcher; alice and bob may submit, bob by his group."""
    with make_container() as container:
        container.check("groupadd web; useradd -m alice; useradd -m -G web bob; useradd -m carol")
        container.write("/etc/gantry/gantry.toml", _SETTINGS)
        engine = Engine(container)
        container.check("gantry cluster init --run-as-submitter demo")
        engine.until_active("luxid", "launcher", "noded")
        yield engine


def last_line(container: Container, command: str, user: str | None = None) -> str:
    return container.check(command, user=user).splitlines()[-1]


@pytest.mark.parametrize("where", ["", "--node"], ids=["here", "on a node"])
def test_commands_run_as_root_for_root_and_as_their_submitters_for_others(machine: Engine, where: str) -> None:
    container = machine.container
    where = where and f"{where} {container.check('gnt-cluster getmaster').strip()}"

    users: tuple[str | None, ...] = (None, "alice", "bob")
    said = {user: last_line(container, f"gnt-job run --wait {where} -- id -u", user) for user in users}

    uids = {user: container.check(f"id -u {user}").strip() for user in ("alice", "bob")}
    assert (said.pop(None), said) == ("0", uids)
    # with all groups of the user, and none of the daemons'
    assert last_line(container, f"gnt-job run --wait {where} -- id -Gn", "bob").split() == ["bob", "web"]
    assert last_line(container, f"gnt-job run --wait {where} -- id -Gn").split() == ["root"]


def test_root_can_upgrade_the_machine(machine: Engine) -> None:
    machine.container.check("gnt-job run --wait --lock node/here -- sh -c 'apt-get --yes --no-download upgrade'")


def test_all_but_commands_stays_the_daemons_users(machine: Engine) -> None:
    job = machine.job("", "sleep 60", user="alice")
    wait_until(
        lambda: "sleep" in machine.container.run("ps -u alice -o comm=").output, what="her command", timeout_s=60
    )

    found = machine.container.check("ps -eo user:20=,args=").splitlines()

    roots = {line.split(None, 1)[1] for line in found if line.startswith("root ") and "gantry" in line}
    assert {words.split(":")[0] for words in roots} == {"gantry-launcher", f"gantry-job {job} supervisor"}
    assert any(line.split(None, 1) == ["gantry", f"gantry-job {job}"] for line in found)
    machine.container.check(f"gnt-job cancel --kill {job}")
    assert machine.until_ended([job]) == {job: "canceled"}


def test_a_user_whom_roots_file_does_not_list_is_refused(machine: Engine) -> None:
    container = machine.container
    before = container.check(f"cat {RULES}")
    container.check(f"sed -i /alice/d {RULES}")

    said = container.run("gnt-job run --wait -- id -u", user="alice")

    container.write(RULES, before)
    assert said.code != 0
    assert "jobs of 'alice' may not run as 'alice' on this machine" in said.output
    assert RULES in said.output


def test_rules_that_are_a_link_or_another_users_are_not_followed(machine: Engine) -> None:
    container = machine.container
    container.check(f"mv {RULES} {RULES}.kept; cp {RULES}.kept /var/lib/gantry/mine; chown gantry /var/lib/gantry/mine")

    container.check(f"ln -s /var/lib/gantry/mine {RULES}")
    linked = container.run("gnt-job run --wait -- id -u")
    container.check(f"rm {RULES}; cp {RULES}.kept {RULES}; chown gantry {RULES}")
    given_away = container.run("gnt-job run --wait -- id -u")

    container.check(f"rm -f {RULES} /var/lib/gantry/mine; mv {RULES}.kept {RULES}")
    assert "is not safe to use: '/var/lib/gantry" in linked.output
    assert f"'{RULES}' belongs to user 'gantry'" in given_away.output
    assert last_line(container, "gnt-job run --wait -- id -u") == "0"


def test_a_planted_link_leads_roots_command_nowhere(machine: Engine) -> None:
    """The launcher opens nothing in the daemons' folders; what a command writes goes through descriptors."""
    container = machine.container
    container.check("echo mine > /root/victim; chmod 600 /root/victim")
    jobs = [int(job["id"]) for job in json.loads(container.check("gnt-job list --output json"))]
    following = max(jobs) + 1
    plant = f"ln -s /root/victim /var/lib/gantry/output/job-{following}.{0:020d}"
    container.check(f"runuser -u gantry -- {plant}")

    # its output is lost, which the log tells
    machine.until_ended([machine.job("", "echo overwritten")])

    assert container.check("cat /root/victim") == "mine\n"
    # input is opened with the rights of the job's user, also through a link
    container.check("runuser -u gantry -- ln -sf /root/victim /var/lib/gantry/input; chmod 755 /var/lib/gantry")
    refused = container.run("gnt-job run --wait --stdin-file /var/lib/gantry/input -- cat", user="alice")
    container.check("chmod 750 /var/lib/gantry; rm /var/lib/gantry/input")
    assert "mine" not in refused.output
    assert refused.code != 0


@pytest.mark.parametrize("user", ["alice", "nobody", "root"])
def test_nobody_but_the_daemons_user_may_call_the_launcher(machine: Engine, user: str) -> None:
    container = machine.container
    container.write("/srv/ask.py", _ASK)

    kept_out = container.run(f"runuser -u {user} -- python3 /srv/ask.py")
    container.check(f"chmod 666 {SOCKET}")
    refused = container.run(f"runuser -u {user} -- python3 /srv/ask.py")
    container.check(f"chmod 600 {SOCKET}")

    # root may open every file
    assert user == "root" or "PermissionError" in kept_out.output
    assert "may not call the launcher" in refused.output
    assert '"success":true' in container.check("runuser -u gantry -- python3 /srv/ask.py")


# what somebody tries who has taken over a daemon, told as JSON: its name -> the error
_TAKEN_OVER: Final = """
import json, os, socket, sys
luxid = sys.argv[1]
def read(path):
    with open(path, "rb") as file:
        file.read(1)
def connect(path):
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(path)
trials = {
    "the launcher": lambda: connect("/run/gantry-launcher/socket"),
    "the launcher, as luxid sees it": lambda: connect(f"/proc/{luxid}/root/run/gantry-launcher/socket"),
    "the fork server": lambda: connect("/run/gantry/socket/gantry-forkserver"),
    "the memory of luxid": lambda: read(f"/proc/{luxid}/mem"),
    "the descriptors of luxid": lambda: os.listdir(f"/proc/{luxid}/fd"),
    "a signal to luxid": lambda: os.kill(int(luxid), 0),
    "the key of the cluster": lambda: read("/var/lib/gantry/server.pem"),
    "the key of the node": lambda: read("/var/lib/gantry/client.pem"),
    "the jobs": lambda: os.listdir("/var/lib/gantry/queue"),
    "a file beside the configuration": lambda: os.open("/var/lib/gantry/planted", os.O_CREAT),
    "a file among the sockets": lambda: os.open("/run/gantry/socket/planted", os.O_CREAT),
    "a note of a mastership": lambda: os.open("/run/gantry/gantry-grant", os.O_CREAT | os.O_WRONLY),
    "another user of HTTP": lambda: os.open("/var/lib/gantry/rapi/users", os.O_WRONLY),
    "the certificate of HTTP": lambda: read("/var/lib/gantry/rapi.pem"),
    "the passwords of HTTP": lambda: read("/var/lib/gantry/rapi/users"),
    "the tokens of HTTP": lambda: read("/var/lib/gantry/rapi/tokens"),
}
done = []
for name, trial in trials.items():
    try:
        trial()
        done.append(name)
    except OSError:
        pass
print(json.dumps(done))
"""


def inside(machine: Engine, daemon: str, *command: str) -> str:
    """A command line that runs as the daemon's process could run it: its user, its groups, what it sees of the disk."""
    machine.until_active(daemon)
    pid = machine.pid(daemon)
    status = machine.container.check(f"cat /proc/{pid}/status")
    ids = {key: value.split() for key, _, value in (line.partition(":") for line in status.splitlines())}
    groups = ",".join({*ids["Groups"], ids["Gid"][0]})
    user = (
        f"setpriv --reuid {ids['Uid'][0]} --regid {ids['Gid'][0]} --groups {groups} --bounding-set=-all --no-new-privs"
    )
    return f"nsenter --target {pid} --mount {user} {shlex.join(command)}"


@pytest.mark.parametrize("daemon", ["rapid", "confd", "mond"])
def test_who_has_taken_over_a_daemon_of_the_network_reaches_neither_the_launcher_nor_luxid(
    machine: Engine, daemon: str
) -> None:
    container = machine.container
    container.check("echo secret | gantry user add probe --role read --password-file - 2>/dev/null || true")
    container.check("gantry token list | grep -q probe || gantry token create --for probe --rights jobs.read")
    probe = ("python3", "-c", _TAKEN_OVER, str(machine.pid("luxid")))

    done = set(json.loads(container.check(inside(machine, daemon, *probe))))

    assert container.check(f"ps -o user:20= -p {machine.pid(daemon)}").strip() == f"gantry-{daemon}"
    of_http = {"the certificate of HTTP", "the passwords of HTTP", "the tokens of HTTP"}
    assert done == (of_http if daemon == "rapid" else set())
    # the probe finds what it looks for
    as_gantry = set(json.loads(container.check(f"runuser -u gantry -- {shlex.join(probe)}")))
    container.check("rm -f /var/lib/gantry/planted /run/gantry/socket/planted /run/gantry/gantry-grant")
    assert as_gantry >= {"the launcher, as luxid sees it", "the jobs", "the key of the node", *of_http}


@pytest.mark.parametrize("daemon", ["rapid", "confd", "mond"])
def test_what_a_daemon_of_the_network_may_read_of_the_data_is_told(machine: Engine, daemon: str) -> None:
    """A new file that the group may read is hidden, or told on the security page."""
    found = machine.container.check(
        inside(
            machine, daemon, "find", "/var/lib/gantry", "-maxdepth", "2", "-type", "f", "-readable", "-printf", "%f\\n"
        )
        + " 2>/dev/null; true"
    )

    of_http = {"rapi.pem", "users", "tokens"} if daemon == "rapid" else set()
    assert {name for name in found.split() if not name.startswith("ssconf_")} - of_http <= {
        "config.data",
        "hmac.key",
        "epoch",
        "epoch.luxid",
        "notify.since",
    }


@pytest.mark.parametrize("daemon", ["rapid", "confd", "mond"])
def test_the_uid_of_a_daemon_of_the_network_is_refused(machine: Engine, daemon: str) -> None:
    """By the launcher, also if its socket were open to all."""
    container = machine.container
    container.check(f"chmod 666 {SOCKET}")

    said = container.run(inside(machine, daemon, "python3", "-c", _ASK))

    container.check(f"chmod 600 {SOCKET}")
    assert "may not call the launcher" in said.output


# submits a command to luxid in somebody's name, and prints the reply
_SPEAK: Final = """
import json, socket, sys
name, role, login = sys.argv[1:]
call = {"method": "SubmitJob", "args": [[{"OP_ID": "OP_RUN_COMMAND", "argv": ["id", "-u"]}]]}
if name:
    call["speaker"] = {"name": name, "role": role, "login": login or None}
sock = socket.socket(socket.AF_UNIX)
sock.connect("/run/gantry/socket/ganeti-query")
sock.sendall(json.dumps(call).encode() + b"\\x03")
print(sock.recv(4096).decode().rstrip("\\x03"))
"""


def spoken(machine: Engine, name: str, role: str, login: str) -> dict[str, object]:
    """The reply to somebody who has taken over rapid, and submits in a name."""
    said = machine.container.check(inside(machine, "rapid", "python3", "-c", _SPEAK, name, role, login))
    reply: dict[str, object] = json.loads(said)
    return reply


@pytest.fixture(scope="module")
def tokens(machine: Engine) -> Mapping[str, str]:
    """Tokens that may submit, by the users as whom their commands run: alice, and root."""
    make = "gantry token create --rights jobs.submit,jobs.read"
    users = ("alice", "root")
    return {
        user: machine.container.check(f"{make} --for {user}s --run-as {user} 2>/dev/null").strip() for user in users
    }


# a request to rapid, over its port or its Unix socket; prints the body of the reply
_HTTP: Final = """
import http.client, socket, ssl, sys
way, token, body = sys.argv[1:]
if way == "port":
    trusted = ssl.create_default_context(cafile="/var/lib/gantry/rapi.pem")
    line = http.client.HTTPSConnection("127.0.0.1", 5080, context=trusted)
else:
    line = http.client.HTTPConnection("localhost")
    line.sock = socket.socket(socket.AF_UNIX)
    line.sock.connect("/run/gantry-rapid/gantry-rapid")
headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
line.request("POST" if body else "GET", "/3/jobs", body or None, headers)
print(line.getresponse().read().decode())
"""
_JOB: Final = '{"jobs": [{"ops": [{"OP_ID": "OP_RUN_COMMAND", "argv": ["id", "-un"]}]}]}'


def over_http(machine: Engine, way: str, *, token: str = "", body: str = "", user: str | None = None) -> str:
    machine.until_active("rapid")
    return machine.container.check(shlex.join(("python3", "-c", _HTTP, way, token, body)), user=user)


def test_commands_over_http_run_as_the_user_of_their_token(machine: Engine, tokens: Mapping[str, str]) -> None:
    container = machine.container

    for user, token in tokens.items():
        job = json.loads(over_http(machine, "port", token=token, body=_JOB))["jobs"][0]["id"]

        assert machine.until_ended([job]) == {job: "success"}
        assert container.check(f"gnt-job output {job}") == f"{user}\n"


def test_luxid_believes_rapid_what_the_files_of_users_and_tokens_say(
    machine: Engine, tokens: Mapping[str, str]
) -> None:
    """Who has taken over rapid can be each HTTP user and token, but neither root nor a submitter beside them."""
    assert set(tokens) == {"alice", "root"}
    assert spoken(machine, "alices", "submit", "alice")["success"]

    for speaker in (("root", "full", "root"), ("bob", "submit", "bob"), ("alices", "submit", "root"), ("", "", "")):
        reply = spoken(machine, *speaker)
        assert not reply["success"], speaker
        assert "needs the role 'submit'" in str(reply["result"])


def test_users_of_the_machine_only_read_over_the_socket_of_rapid(machine: Engine, tokens: Mapping[str, str]) -> None:
    read = over_http(machine, "socket", user="alice")
    refused = over_http(machine, "socket", body=_JOB, user="alice")
    taken = over_http(machine, "socket", token=tokens["alice"], body=_JOB)

    assert "RUN_COMMAND" in read
    assert "HTTP user 'alice' has only 'read'" in refused
    assert '"refused":null' in taken


def test_a_kill_ends_all_that_a_command_has_started(machine: Engine) -> None:
    container = machine.container
    job = machine.job("", "sh -c 'trap \"\" TERM; (setsid sleep 4711 &); sleep 4712'", user="alice")
    wait_until(lambda: container.run("pgrep -u alice -f '[s]leep 4711'").code == 0, what="its child", timeout_s=60)

    container.check(f"gnt-job cancel --kill {job}")

    assert machine.until_ended([job]) == {job: "canceled"}
    assert container.run("pgrep -f '[s]leep 471[12]'").code == 1
    assert container.check("ls /run/gantry-launcher/commands") == ""


def test_a_command_goes_on_while_the_launcher_is_restarted(machine: Engine) -> None:
    container = machine.container
    job = machine.job("--lock node/x", "sh -c 'while [ ! -e /srv/go ]; do sleep 0.1; done; echo done'", user="alice")
    wait_until(lambda: container.run("pgrep -u alice -f '[s]rv/go'").code == 0, what="the command", timeout_s=60)
    before = machine.pid("launcher")

    container.check("systemctl restart gantry-launcher")
    assert machine.pid("launcher") != before
    assert last_line(container, "gnt-job run --wait -- id -u", "alice") == container.check("id -u alice").strip()
    assert "node/x" in container.check("gnt-debug locks")
    container.check("touch /srv/go")

    assert machine.until_ended([job]) == {job: "success"}
    assert container.check(f"gnt-job output {job}", user="alice") == "done\n"


def test_locks_stay_held_without_the_job_process_and_a_kill_reaches_the_supervisor_of_root(machine: Engine) -> None:
    container = machine.container
    job = machine.job("--lock node/y", "sleep 4713", user="alice")
    wait_until(lambda: container.run("pgrep -u alice -f '[s]leep 4713'").code == 0, what="the command", timeout_s=60)

    container.check(f"kill -9 $(pgrep -u gantry -f '^gantry-job {job}$'); systemctl restart gantry-launcher; sleep 1")
    assert "node/y" in container.check("gnt-debug locks")
    assert container.run("pgrep -f '[s]leep 4713'").code == 0

    container.check(f"gnt-job cancel --kill {job}")
    machine.until_ended([job])
    assert "node/y" not in container.check("gnt-debug locks")
    assert container.run("pgrep -f '[s]leep 4713'").code == 1


def test_a_command_whose_supervisor_was_killed_is_ended_before_its_locks_are_free(machine: Engine) -> None:
    container = machine.container
    script = "sh -c '(setsid sh -c \"sleep 4714; true\" &); sleep 4715'"
    job = machine.job("--lock node/z", script, user="alice")
    wait_until(lambda: container.run("pgrep -u alice -f '[s]leep 4714'").code == 0, what="its child", timeout_s=60)

    container.check(f"kill -9 $(pgrep -u root -f '^gantry-job {job} supervisor$')")

    assert machine.until_ended([job]) == {job: "error"}
    assert container.run("pgrep -f '[s]leep 471[45]'").code == 1
    assert container.check("ls /run/gantry-launcher/commands") == ""


def test_the_launcher_stays_on_while_commands_need_it_to_end(machine: Engine) -> None:
    container = machine.container
    job = machine.job("", "sleep 4716", user="alice")
    wait_until(lambda: container.run("pgrep -u alice -f '[s]leep 4716'").code == 0, what="the command", timeout_s=60)

    refused = container.run("gantry cluster run-as-submitter --off")
    container.check(f"gnt-job cancel --kill {job}")

    assert (refused.code, "1 commands of other users run" in refused.output) == (1, True)
    assert machine.until_ended([job]) == {job: "canceled"}
    assert container.run("pgrep -f '[s]leep 4716'").code == 1
    assert last_line(container, "gnt-job run --wait -- id -un", "alice") == "alice"


def test_daemons_that_may_have_to_end_commands_stop_before_the_launcher(machine: Engine) -> None:
    for unit in ("gantry-launcher.socket", "gantry-launcher.service"):
        before = set(machine.container.shown(unit, "Before").split())
        assert before >= {f"gantry-{name}.service" for name in ("forkserver", "luxid", "noded", "keeperd")}


def test_the_hint_of_the_package_leads_to_a_first_job(bare: Container) -> None:
    said = bare.check(f"dpkg -i /{PACKAGE}")
    hint = next(line for line in said.splitlines() if "gantry cluster init NAME" in line)

    # what an impatient operator does first harms nothing
    bare.check("systemctl enable --now gantry.target; sleep 3")
    failed = bare.check("systemctl list-units --failed --plain --no-legend 'gantry*'")
    states = {bare.shown(f"gantry-{name}", "NRestarts") for name in ("wconfd", "luxid", "forkserver")}
    bare.check(hint.split("with: ")[1].replace("NAME", "demo"))

    assert (failed, states) == ("", {"0"})
    # without a terminal it is confined, as an upgrade of an earlier version
    assert bare.check("gnt-job run --wait -- id -un").splitlines()[-1] == "gantry"
    assert bare.run(f"test -e {RULES}").code == 1
    bare.check("gantry cluster run-as-submitter")
    assert bare.check("gnt-job run --wait -- id -un").splitlines()[-1] == "root"
    bare.check("gantry cluster run-as-submitter --off")
    assert bare.check("gnt-job run --wait -- id -un").splitlines()[-1] == "gantry"


@pytest.mark.parametrize("reply", ["y", "n"])
def test_on_a_terminal_init_asks_how_commands_are_to_run(fresh: Container, reply: str) -> None:
    fresh.check("groupadd ops")
    fresh.write("/etc/gantry/gantry.toml", '[access]\ngids = ["ops"]\n')

    said = fresh.check(f"echo {reply} | script -qec 'gantry cluster init demo' /dev/null")
    Engine(fresh).until_active("luxid")

    assert "Jobs are to run commands as the users who submit them" in said
    assert last_line(fresh, "gnt-job run --wait -- id -un") == {"y": "root", "n": "gantry"}[reply]
    assert ("'uids' and 'gids' in [access] count as root's" in said) == (reply == "y")


def test_an_upgrade_stays_confined_and_a_launcher_is_upgraded_under_its_commands(fresh: Container) -> None:
    engine = Engine(fresh)
    engine.start()
    upgrade(fresh)
    assert fresh.run(f"test -e {RULES} || test -e {SOCKET}").code == 1
    assert fresh.check("gnt-job run --wait -- id -un").splitlines()[-1] == "gantry"

    fresh.check("gantry cluster run-as-submitter")
    job = engine.job("--lock node/x", "sh -c 'while [ ! -e /srv/go ]; do sleep 0.1; done; id -un'")
    before = engine.pid("launcher")
    fresh.check("dpkg -i /root/next.deb")
    engine.until_active("launcher", "luxid")
    assert engine.pid("launcher") != before
    fresh.check("touch /srv/go")
    assert engine.until_ended([job]) == {job: "success"}
    assert fresh.check(f"gnt-job output {job}") == "root\n"


def test_without_root_or_systemd_no_launcher_is_switched_on(machine: Engine) -> None:
    container = machine.container

    as_gantry = container.run("runuser -u gantry -- gantry cluster run-as-submitter")
    private = container.run("gantry --root /srv/private cluster init --run-as-submitter x")

    assert "only root" in as_gantry.output
    assert "without --root" in private.output
    assert container.run("test -e /srv/private").code == 1
    wait_until(lambda: machine.container.check("gnt-job list"), what="an answer", timeout_s=PATIENCE_S)
