"""The bounds of each user over HTTP, under /3 and /2: 429, with the bound and the user's number (DESIGN section 17)."""

from pathlib import Path

from common.queue.terms import Hold, JobTerms, terms_entry
from tests.support.web.rapid import Web

SETTINGS = "[limits]\nmax_queued_jobs_per_user = 2\n"
USERS = "jill xyz submit\njim xyz submit,write\n"
HELD = {"OP_ID": "OP_TEST_DUMMY", "reason": [terms_entry(JobTerms(hold=Hold()), 0).to_wire()]}


def test_a_user_at_the_bound_gets_429_and_others_go_on(tmp_path: Path) -> None:
    with Web(tmp_path, SETTINGS) as web:
        web.paths.rapi.mkdir(parents=True, exist_ok=True)
        web.paths.rapi_users.write_text(USERS)
        web.start()
        jill, jim = (web.remote(auth=(name, "xyz")) for name in ("jill", "jim"))
        first = jill.post("/3/jobs", json={"jobs": [{"ops": [HELD]}] * 2})
        assert first.status_code == 201, first.text

        reply = jill.post("/3/jobs", json={"jobs": [{"ops": [HELD]}]})

        assert reply.status_code == 429
        problem = reply.json()
        assert problem["code"] == "over_limit"
        assert problem["detail"].startswith("user 'http:jill' has 2 jobs in the queue, of at most 2, and 1 more")
        assert jim.post("/3/jobs", json={"jobs": [{"ops": [HELD]}] * 2}).status_code == 201
        ganetis = jim.put("/2/redistribute-config")
        assert ganetis.status_code == 429, ganetis.text
        assert "has 2 jobs in the queue, of at most 2" in ganetis.json()["message"]
        assert web.local.post("/3/jobs", json={"jobs": [{"ops": [HELD]}] * 3}).status_code == 201
