"""Verifies the tokens of MSK IAM as AWS does, by its description of Signature Version 4 and not by its library.

Source: "Create a signed AWS API request", AWS General Reference.
"""

import hashlib
import hmac
from base64 import urlsafe_b64decode
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final
from urllib.parse import parse_qsl, quote, urlsplit

SERVICE: Final = "kafka-cluster"
ACTION: Final = "kafka-cluster:Connect"
UNSIGNED: Final = frozenset({"X-Amz-Signature", "User-Agent"})


class RefusedTokenError(Exception):
    """The token is not valid; the message says why."""


@dataclass(frozen=True, slots=True)
class AwsKey:
    """A key that AWS knows; `session_token` is that of a role."""

    secret: str
    session_token: str = ""


def verified(token: str, keys: dict[str, AwsKey], region: str, now: datetime | None = None) -> str:
    """Return the id of the key that has signed the token. Raises RefusedTokenError."""
    now = now or datetime.now(UTC)
    url = urlsplit(urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode())
    fields = dict(parse_qsl(url.query, keep_blank_values=True, strict_parsing=True))
    _expect("host", (url.scheme, url.netloc), ("https", f"kafka.{region}.amazonaws.com"))
    _expect("action", fields["Action"], ACTION)
    _expect("algorithm", fields["X-Amz-Algorithm"], "AWS4-HMAC-SHA256")
    _expect("headers", fields["X-Amz-SignedHeaders"], "host")
    key_id, day, *scope = fields["X-Amz-Credential"].split("/")
    _expect("scope", scope, [region, SERVICE, "aws4_request"])
    began = datetime.strptime(fields["X-Amz-Date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    _expect("day", day, f"{began:%Y%m%d}")
    ends = began + timedelta(seconds=int(fields["X-Amz-Expires"]))
    _expect("time", began - timedelta(minutes=5) <= now < ends, True)
    key = keys.get(key_id)
    if key is None:
        raise RefusedTokenError("unknown key")
    _expect("session token", fields.get("X-Amz-Security-Token", ""), key.session_token)
    signed = sorted((n, v) for n, v in fields.items() if n not in UNSIGNED)
    query = "&".join(f"{quote(n, safe='-_.~')}={quote(v, safe='-_.~')}" for n, v in signed)
    canonical = "\n".join(
        ("GET", url.path, query, f"host:{url.netloc}", "", "host", hashlib.sha256(b"").hexdigest())
    )
    text = "\n".join(
        (
            *("AWS4-HMAC-SHA256", fields["X-Amz-Date"], "/".join((day, *scope))),
            hashlib.sha256(canonical.encode()).hexdigest(),
        )
    )
    signing = f"AWS4{key.secret}".encode()
    for part in (day, *scope):
        signing = hmac.digest(signing, part.encode(), "sha256")
    right = hmac.digest(signing, text.encode(), "sha256").hex()
    _expect("signature", hmac.compare_digest(fields["X-Amz-Signature"], right), True)
    return key_id


def _expect(what: str, found: object, expected: object) -> None:
    if found != expected:
        raise RefusedTokenError(f"the {what} is wrong")
