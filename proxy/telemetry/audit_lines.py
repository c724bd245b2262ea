"""The members of lines in the audit log, from what the core and policies tell of a request.

Rules:
- Texts that clients choose are cut, and made such that UTF-8 can encode them. JSON escapes control characters.
- A list in a line has MAX_LIST_BYTES; what is left out is counted by member. Items that were done are given in pieces
  of that size, of which none is left out.
"""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Final

import msgspec

from wire.authorization import Ask, Operation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policies.api import Peer
    from policies.audit_facts import AuditFacts, AuditItem
    from policies.denial import Deny

MAX_LIST_BYTES: Final = 8 << 10
"""Of one list in one line, as JSON. Four of them and the texts are less than `stderr.MAX_LINE_BYTES`."""
MAX_TEXT_CHARS: Final = 1_000
"""Names, which clients choose, are cut to this length."""
MAX_DENIED: Final = 100
"""Items of one refusal that only would have been made."""
_encoder = msgspec.json.Encoder()


def encode(line: object) -> str:
    """Return the line as JSON."""
    return _encoder.encode(line).decode()


def notice(lines: int) -> str:
    """Return the line for this number of lost lines."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    return encode({"ts": now, "event": "lines_lost", "lines": lines}) + "\n"


def time_text(us: int) -> str:
    """Return a time in microseconds as text."""
    return datetime.fromtimestamp(us / 1_000_000, UTC).isoformat(timespec="milliseconds")


def client_fields(peer: Peer) -> dict[str, object]:
    """Return the members that say who the client is."""
    return {
        "user": safe_text(peer.user),
        "principal_source": peer.principal_source,
        "proof": peer.proof,
        "client_id": safe_text(peer.client_id),
        "host": peer.host,
        "port": peer.port,
        "node": peer.node_id,
        "session": peer.session_id,
    }


def refusal_fields(policy: str, error: str, reason: str) -> dict[str, object]:
    """Return the members that say who refused, and why."""
    return {"policy": policy, "error": error, "reason": safe_text(reason)}


def fact_fields(facts: AuditFacts) -> dict[str, object]:
    """Return the members of a line for what is known of the names and errors; what was done is not among them."""
    found: dict[str, object] = {}
    left_out = Counter(facts.left_out)
    for member, names in (("topics", facts.topics), ("groups", facts.groups)):
        if names is not None:
            found[member] = _first([safe_text(name) for name in names], member, left_out)
    if facts.errors is not None:
        found["errors"] = _first(list(map(_item, facts.errors)), "errors", left_out)
    if left_out:
        found["left_out"] = dict(left_out)
    if facts.unread:
        found["unread"] = safe_text(facts.unread)
    return found


def denied_fields(denial: Deny) -> dict[str, object]:
    """Return the member that names what is denied: MAX_DENIED at most, the others are counted."""
    left_out: Counter[str] = Counter()
    names = [safe_text(_denied_name(key)) for key in islice(denial.codes, MAX_DENIED)]
    found: dict[str, object] = {"denied": _first(names, "denied", left_out)}
    left_out["denied"] += len(denial.codes) - len(names)
    return found | ({"left_out": dict(left_out)} if left_out["denied"] else {})


def _denied_name(key: object) -> str:
    """Return what `Deny` calls an item, in words: `WRITE topic orders` of a right, else the topic."""
    if isinstance(key, Ask):
        kind = key.kind.name.lower()
        return (
            f"{Operation(key.operation).name} {kind} {'*' if key.name is None else _text(key.name)}"
        )
    if isinstance(key, tuple):
        topic, partition = key
        return f"topic {_text(topic)} partition {partition}"
    return f"topic {_text(key)}"


def _text(name: object) -> str:
    return name.hex() if isinstance(name, bytes) else str(name)


def _first(items: Sequence[object], member: str, left_out: Counter[str]) -> list[object]:
    """Return the items that one line holds; count the others in `left_out`."""
    shown = _pieces(items)[0]
    if len(shown) < len(items):
        left_out[member] += len(items) - len(shown)
    return shown


def done_pieces(facts: AuditFacts) -> list[list[object]]:
    """Return what was done, in pieces for one line each; the first may be empty."""
    return _pieces(list(map(_item, facts.done or ())))


def _pieces(items: Sequence[object]) -> list[list[object]]:
    pieces: list[list[object]] = [[]]
    room_bytes = MAX_LIST_BYTES
    for item in items:
        size_bytes = len(encode(item).encode()) + 1
        if size_bytes > room_bytes and pieces[-1]:
            pieces.append([])
            room_bytes = MAX_LIST_BYTES
        pieces[-1].append(item)
        room_bytes -= size_bytes
    return pieces


def _item(item: AuditItem) -> dict[str, object]:
    name = {"name": safe_text(item.name)} if item.name else {}
    partition = {} if item.partition is None else {"partition": item.partition}
    error = {"error": item.error} if item.error else {}
    return {**name, **partition, **error}


def safe_text(text: str) -> str:
    """Return a name that UTF-8 can encode: halves of surrogate pairs are escaped. JSON escapes control characters."""
    return text[:MAX_TEXT_CHARS].encode(errors="backslashreplace").decode()
