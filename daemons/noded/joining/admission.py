"""Let a machine with a token into the cluster: sign its certificate, then have a job add the node.

Theory. Each step can be repeated, whoever dies in between. The certificate is signed first, and stored in the token's
record together with the machine's key, in one durable step: a second request with that key gets the same
certificate, one with another key gets nothing. The number of the job that adds the node is stored before the job is
submitted, and is part of the submission's key: luxid takes it once.

Source: DESIGN section 13, "Joining".
"""

import datetime
import time
from pathlib import Path
from typing import Final

import attrs
import trio

from common.daemons import Place
from common.errors import Conflict, DamagedFile, NotFound, Unavailable
from common.nodes.certificates.nodecertificates import public_digest_of, sign_request
from common.nodes.certificates.pemcontent import certificates_in, digest_of
from common.nodes.joining.joinsettings import shared_tables
from common.nodes.joining.jointoken import JoinToken, TokenUse, wrong_token
from common.nodes.joining.jointokenfiles import JoinTokenFiles, with_job
from common.nodes.nodeplace import place_of
from common.objects.ssconf import MAX_BYTES
from common.settings import Settings
from common.system.inthread import in_thread
from common.system.log import get_log
from daemons.noded.files.places import SSCONF_KEYS
from daemons.noded.joining.checks import check_machine, check_place
from daemons.noded.joining.jobs import AddJobs
from protocol.noded.joining import Admitted, AskNews, Join, News, Ready, TakingIn

_log: Final = get_log(__name__)


class Admission:
    """What a machine may ask. Raises, all: GantryError: refused, with the words for its user. OSError."""

    def __init__(self, settings: Settings, tokens: JoinTokenFiles, jobs: AddJobs) -> None:
        self._settings = settings
        self._tokens = tokens
        self._jobs = jobs
        # one machine after the other: a job is submitted once for each
        self._turn = trio.Lock()

    async def join(self, call: Join) -> Admitted:
        """Sign the machine's certificate, and bind the token to its key.

        Raises: WrongToken: the secret is not right. Denied: the token is used or over. Conflict: the name is taken,
            or the clocks differ. InvalidRequest. Unavailable: this node is not the master.
        Durability: on return the binding survives a loss of power.
        """
        return await in_thread(self._join, call)

    async def ready(self, call: Ready, caller: str) -> TakingIn:
        """Submit the job that adds the node; if there is one that has not failed, return that one.

        Args: caller: digest of the machine's certificate.
        """
        async with self._turn:
            token, use = await in_thread(self._known, call.token_id, caller)
            if use.job_id is not None and not await self._jobs.has_failed(use.job_id):
                return TakingIn(use.job_id)
            if use.job_id is not None or not use.jobs:
                # a number without a job: its submission may have reached luxid, and is repeated under this number
                token = await in_thread(self._note_job, token.id, use.jobs + 1, None)
            assert token.use is not None, "it was known"
            job_id = await self._jobs.submit(token)
            await in_thread(self._note_job, token.id, token.use.jobs, job_id)
            _log.info("join.submitted", node=use.node, job=job_id, token=token.id)
            return TakingIn(job_id)

    async def news(self, call: AskNews, caller: str) -> News:
        """Wait for news of the job, for a bounded time."""
        _, use = await in_thread(self._known, call.token_id, caller)
        if use.job_id is None:
            raise Conflict("there is no job yet that adds this node; repeat the same command")
        return await self._jobs.news(use.job_id, call.status, call.serial)

    def _join(self, call: Join) -> Admitted:
        self._require_master()
        if self._settings.paths.next_server_pem.exists():
            raise Unavailable(
                "the certificate of the cluster is being renewed, and a new node would miss it; try again when that is "
                "finished, on the master by: gnt-cluster renew-crypto"
            )
        server_pem = self._settings.paths.server_pem.read_bytes()

        def use(token: JoinToken | None) -> JoinToken:
            if token is None or not token.is_of(call.secret):
                raise wrong_token()
            key = public_digest_of(call.request.encode())
            found = token.admit(key, time.time())
            if found is None or found.job_id is None:
                self._check(call, token)
            if found is not None:
                return self._repeated(call, token, found)
            now = datetime.datetime.now(datetime.UTC)
            certificate = sign_request(server_pem, call.request.encode(), call.node_name, now).decode()
            made = TokenUse(call.node_name, call.address, key, certificate, now.timestamp())
            return attrs.evolve(token, use=made)

        token = self._tokens.change(call.token_id, use)
        assert token.use is not None, "it was used just now"
        _log.info("join.admitted", node=token.use.node, address=token.use.address, token=token.id)
        paths = self._settings.paths
        ssconf = {key: paths.ssconf_file(key) for key in sorted(SSCONF_KEYS)}
        return Admitted(
            certificate=token.use.certificate,
            cluster_certificate=certificates_in(server_pem)[0].decode(),
            cluster_name=_text(paths.ssconf_file("cluster_name")).strip(),
            ssconf={key: _text(path) for key, path in ssconf.items() if path.exists()},
            port=self._settings.noded.port,
            shared=shared_tables(self._settings),
        )

    def _repeated(self, call: Join, token: JoinToken, found: TokenUse) -> JoinToken:
        """The token after the machine that has used it asks again, perhaps under another address."""
        if found.node != call.node_name:
            raise Conflict(
                f"this machine has used the token as '{found.node}', and asks as '{call.node_name}' now; repeat the "
                f"command with --node {found.node}, or make a new token"
            )
        return attrs.evolve(token, use=attrs.evolve(found, address=call.address))

    def _check(self, call: Join, token: JoinToken) -> None:
        check_machine(call, time.time())
        lines = _text(self._settings.paths.ssconf_file("node_primary_ips")).splitlines()
        check_place(call, token.readd, dict(line.split()[:2] for line in lines))

    def _known(self, token_id: str, caller: str) -> tuple[JoinToken, TokenUse]:
        """The token that the holder of this certificate has used. Raises: WrongToken, Unavailable."""
        self._require_master()
        token = self._tokens.find(token_id)
        if token is None or token.use is None or digest_of(token.use.certificate.encode()) != caller:
            raise wrong_token()
        return token, token.use

    def _note_job(self, token_id: str, jobs: int, job_id: int | None) -> JoinToken:
        def note(token: JoinToken | None) -> JoinToken:
            if token is None or token.use is None:
                raise wrong_token()
            return with_job(token, jobs=jobs, job_id=job_id)

        return self._tokens.change(token_id, note)

    def _require_master(self) -> None:
        if place_of(self._settings) is not Place.MASTER:
            master = _text(self._settings.paths.ssconf_file("master_node")).strip()
            raise Unavailable(f"this node is not the master, that is '{master}'; make a token there, and join there")


def _text(path: Path) -> str:
    """Raises: NotFound: there is no such file. DamagedFile: it is too long. OSError."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise NotFound(f"'{path}' is missing on the master; write it anew with: gnt-cluster redist-conf") from None
    if len(content) > MAX_BYTES:
        raise DamagedFile(f"'{path}' is longer than {MAX_BYTES} bytes", file=str(path))
    return content.decode("utf-8", "replace")
