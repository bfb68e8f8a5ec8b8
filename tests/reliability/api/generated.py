"""Drive rapid by clients that are made of its document: `make test-generators`.

openapi-python-client makes a client and datamodel-code-generator models, both of the document of a rapid that runs, and
without a warning. `clientsession.py` uses them; it knows nothing of the project, as the program of a user would.

Exit code 1: a generator, or the session, has failed.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from common.webaccess.tokens import NewToken, TokensFile
from tests.support.accounts.users import OWN_LOGIN
from tests.support.web.rapid import Web

SESSION: Final = Path(__file__).with_name("clientsession.py")
# of the folder where the session finds them
CLIENT: Final = "gantryclient"
MODELS: Final = "gantrymodels"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("programs", type=Path, help="folder with the generators' programs")
    programs = parser.parse_args().programs.absolute()
    with tempfile.TemporaryDirectory(prefix="generated-") as folder, Web(Path(folder, "cluster")) as web:
        web.start()
        made = Path(folder, "made")
        made.mkdir()
        codes = [_make(programs, web.local.get("/3/openapi.json").raise_for_status().content, made)]
        if not any(codes):
            codes.append(_use(programs, web, made))
        if any(codes):
            print(web.log()[-4000:], file=sys.stderr)
        return max(codes)


def _make(programs: Path, document: bytes, made: Path) -> int:
    """Make the client and the models."""
    path, settings = made / "openapi.json", made / "settings.yaml"
    path.write_bytes(document)
    # no formatting of what nobody reads
    settings.write_text("post_hooks: []\n")
    client: list[str | Path] = [
        *(programs / "openapi-python-client", "generate", "--path", path, "--output-path", made / CLIENT),
        *("--meta", "none", "--config", settings, "--fail-on-warning"),
    ]
    models: list[str | Path] = [
        *(programs / "datamodel-codegen", "--input", path, "--input-file-type", "openapi"),
        *("--output", made / f"{MODELS}.py", "--output-model-type", "pydantic_v2.BaseModel", "--formatters", "builtin"),
    ]
    return max(subprocess.run(words, cwd=made, check=False).returncode for words in (client, models))


def _use(programs: Path, web: Web, made: Path) -> int:
    new = NewToken("generated", ("admin",), None, OWN_LOGIN)
    _, token = TokensFile(web.paths).create(new, time.time())
    words: list[str | Path] = [programs / "python", "-P", SESSION, web.url, str(token), web.paths.rapi_pem, made]
    return subprocess.run(words, cwd=made, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
