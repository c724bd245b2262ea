"""The audit log: JSON lines about administrative requests and refusals, with user, time and address.

Rules:
- One line when an administrative request (`wire.administrative`) has ended, when any request that a policy refused
  has ended, when a client is refused at its connect, and when one fails to authenticate to Sluice. Names and figures
  come from headers; those of a body only from a policy (`policies.audit`), as names and error codes. Of an
  authentication there are only the mechanism and the claimed user.
- The loop makes the line and queues it; a thread writes it. Lines that the disk refuses are counted (`lost`), and a
  line `lines_lost` marks the gap. No request waits.
- The file is bounded. Each user at each address has LINES_PER_SECOND, so one client cannot push out the lines of
  others; further lines are counted in `suppressed`, and the next line has their number.
"""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import msgspec
import structlog

from policies.decision import error_name
from proxy.core.observer import Observer
from proxy.telemetry.rotating_file import RotatingFile
from proxy.telemetry.stderr import NonBlockingWriter

if TYPE_CHECKING:
    from pathlib import Path

    from policies.api import Peer
    from policies.audit_facts import AuditFacts, FailedItem
    from policies.decision import PolicyDecision
    from proxy.core.observer import AuthenticationFailure
    from proxy.core.stats.request_trace import RequestTrace

LINES_PER_SECOND: Final = 100
MAX_TEXT_CHARS: Final = 1_000
"""Names, which clients choose, are cut to this length."""
_encode = msgspec.json.Encoder().encode


class AuditLog(Observer):
    """Writes the audit log to `path`, which rotates at `max_bytes`. Raises OSError if it cannot be opened."""

    hears_audit = True

    def __init__(self, path: str | Path, max_bytes: int) -> None:
        self.suppressed = 0
        self._file = RotatingFile(path, max_bytes)
        self._queue = NonBlockingWriter(self._write)
        self._queue.notice = _notice
        self._second = 0
        self._lines: Counter[tuple[str, str]] = Counter()  # in this second, by user and host
        self._suppressed = 0  # since the last line
        self._is_running = False

    def lost(self) -> dict[str, int]:
        """Return the number of missing lines: `disk` (a write failed or the queue was full), `rate` (`suppressed`)."""
        return {"disk": self._queue.lines_lost, "rate": self.suppressed}

    def start(self) -> None:
        """Start the thread that writes."""
        self._is_running = True
        self._queue.start()

    def close(self, timeout_s: float) -> None:
        """Write the queued lines within `timeout_s` and close the file. Call it once."""
        if self._is_running:
            self._is_running = False
            if not self._queue.finish(timeout_s):
                structlog.get_logger().warning("audit_log_incomplete", lines=self._queue.unwritten)
                return  # the thread still writes
        self._file.close()

    # -- on the loop -----------------------------------------------------------------------------

    def on_audited(self, trace: RequestTrace) -> None:
        """See Observer."""
        api, ended_us = trace.api, trace.ended_us
        if not self._is_within_rate(trace.peer, ended_us // 1000):
            return
        is_refused = bool(trace.refused or trace.refused_by)
        line: dict[str, object] = {
            "ts": _time(ended_us),
            "event": "refused" if is_refused else "request",
            "api": api.name,
            "version": api.version,
            **_client(trace.peer),
            "correlation_id": trace.correlation_id,
            "size_bytes": trace.size_bytes,
            "forwarded": trace.forwarded_us != 0,
            "outcome": trace.outcome.value,
            "took_ms": (ended_us - trace.began_us) // 1000,
        }
        if is_refused:
            line |= _refusal(trace.refused_by, error_name(trace.refused), trace.refused_because)
        if trace.facts is not None:
            line |= _facts(trace.facts)
        self._put(line)

    def on_authentication_failed(self, peer: Peer, failure: AuthenticationFailure) -> None:
        """See Observer. Its `user` is still unknown; `claimed_user` is what the client has said."""
        if self._is_within_rate(peer, failure.now_ms):
            line = {"ts": _time(failure.now_ms * 1000), "event": "authentication_failed"}
            said = {
                "mechanism": failure.mechanism,
                "claimed_user": _text(failure.user),
                "reason": _text(failure.why),
            }
            self._put({**line, **_client(peer), **said})

    def on_policy_refused(self, decision: PolicyDecision) -> None:
        """See Observer. Only clients refused at their connect: refused requests come by `on_audited`."""
        if not decision.api_name and self._is_within_rate(decision.peer, decision.now_ms):
            refusal = _refusal(decision.policy, decision.error, decision.message)
            line = {"ts": _time(decision.now_ms * 1000), "event": "connect_refused"}
            self._put({**line, **_client(decision.peer), **refusal})

    def _is_within_rate(self, peer: Peer, now_ms: int) -> bool:
        second = now_ms // 1000
        if second != self._second:
            self._second = second
            self._lines.clear()
        client = (peer.user, peer.host)
        self._lines[client] += 1
        if self._lines[client] <= LINES_PER_SECOND:
            return True
        self.suppressed += 1
        self._suppressed += 1
        return False

    def _put(self, line: dict[str, object]) -> None:
        if self._suppressed:
            line["suppressed"], self._suppressed = self._suppressed, 0
        self._queue.write(_encode(line).decode() + "\n")

    # -- the thread ------------------------------------------------------------------------------

    def _write(self, data: bytes) -> int:
        self._file.append(data)
        return len(data)


def _notice(lines: int) -> str:
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    return _encode({"ts": now, "event": "lines_lost", "lines": lines}).decode() + "\n"


def _time(us: int) -> str:
    return datetime.fromtimestamp(us / 1_000_000, UTC).isoformat(timespec="milliseconds")


def _client(peer: Peer) -> dict[str, object]:
    return {
        "user": _text(peer.user),
        "principal_source": peer.principal_source,
        "client_id": _text(peer.client_id),
        "host": peer.host,
        "port": peer.port,
        "node": peer.node_id,
        "session": peer.session_id,
    }


def _refusal(policy: str, error: str, reason: str) -> dict[str, object]:
    return {"policy": policy, "error": error, "reason": reason}


def _facts(facts: AuditFacts) -> dict[str, object]:
    """Return the members of a line for what is known of the names and errors."""
    found: dict[str, object] = {}
    for member, names in (("topics", facts.topics), ("groups", facts.groups)):
        if names is not None:
            found[member] = [_text(name) for name in names]
    if facts.errors is not None:
        found["errors"] = [_failed(each) for each in facts.errors]
    if facts.left_out:
        found["left_out"] = facts.left_out
    if facts.unread:
        found["unread"] = _text(facts.unread)
    return found


def _failed(item: FailedItem) -> dict[str, object]:
    name = {"name": _text(item.name)} if item.name else {}
    partition = {} if item.partition is None else {"partition": item.partition}
    return {**name, **partition, "error": item.error}


def _text(text: str) -> str:
    """Return a name that UTF-8 can encode: halves of surrogate pairs are escaped. JSON escapes control characters."""
    return text[:MAX_TEXT_CHARS].encode(errors="backslashreplace").decode()
