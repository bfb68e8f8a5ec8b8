"""Tokens as they are shown, to people and as JSON; never with their secrets."""

from common.webaccess.tokens import Token


def token_json(token: Token, now: float) -> dict[str, object]:
    return {
        "id": token.id,
        "name": token.name,
        "rights": list(token.rights),
        "run_as": token.run_as,
        "state": token.state(now),
        "made_at": token.made_at,
        "expires_at": token.expires_at,
        "revoked_at": token.revoked_at,
    }
