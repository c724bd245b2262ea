"""The audit log: who did which administrative act, or was refused what, when and from where. JSON lines in a file.

Rules:
- One line when an administrative request (`wire.administrative`) has ended, when any request that a policy refused
  has ended, and when a client is refused at its connect. Names and figures from headers only, never from a body.
- The loop makes the line and queues it; a thread writes it. What a disk does not take is counted (`lost`), and
  a line `lines_lost` says so where the gap is. Nothing waits.
- The file is bounded, and so is what one client can write into it: each user at each address has LINES_PER_SECOND.
  What is beyond is counted in `suppressed`, and the next line says how many. So nobody can drive out in a moment
  what was told of others.
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
from proxy.telemetry.stderr import NonBlockingStderr

if TYPE_CHECKING:
    from pathlib import Path

    from policies.api import Peer
    from policies.decision import PolicyDecision
    from proxy.core.stats.request_trace import RequestTrace

LINES_PER_SECOND: Final = 100
TEXT_MAX_CHARS: Final = 1_000
"""Of a name that a client has chosen."""
_encode = msgspec.json.Encoder().encode


class AuditLog(Observer):
    """See the module. Raises OSError if the file cannot be opened."""

    hears_audit = True

    def __init__(self, path: str | Path, max_bytes: int) -> None:
        self.suppressed = 0
        self._file = RotatingFile(path, max_bytes)
        self._sink = NonBlockingStderr(self._write)
        self._sink.notice = _notice
        self._second = 0
        self._lines: Counter[tuple[str, str]] = Counter()  # in this second, by user and host
        self._unsaid = 0  # suppressed since the last line
        self._is_running = False

    def lost(self) -> dict[str, int]:
        """Lines that the file does not have: `disk` (it took none, or the queue was full), `rate` (`suppressed`)."""
        return {"disk": self._sink.lines_lost, "rate": self.suppressed}

    def start(self) -> None:
        """Begin to write."""
        self._is_running = True
        self._sink.start()

    def close(self, timeout_s: float) -> None:
        """Write what is queued, for so long at most. Once."""
        if self._is_running:
            self._is_running = False
            if not self._sink.finish(timeout_s):
                structlog.get_logger().warning("audit_log_incomplete", lines=self._sink.unwritten)
                return  # the thread still writes
        self._file.close()

    # -- on the loop -----------------------------------------------------------------------------

    def on_audited(self, trail: RequestTrace) -> None:
        """See Observer."""
        api, ended_us = trail.api, trail.ended_us
        if not self._may(trail.peer, ended_us // 1000):
            return
        is_refused = bool(trail.refused or trail.refused_by)
        line: dict[str, object] = {
            "ts": _time(ended_us),
            "event": "refused" if is_refused else "request",
            "api": api.name,
            "version": api.version,
            **_who(trail.peer),
            "correlation_id": trail.correlation_id,
            "size_bytes": trail.size_bytes,
            "forwarded": trail.forwarded_us != 0,
            "outcome": trail.outcome.value,
            "took_ms": (ended_us - trail.began_us) // 1000,
        }
        if is_refused:
            line |= _refusal(trail.refused_by, error_name(trail.refused), trail.refused_because)
        self._put(line)

    def on_policy_refused(self, decision: PolicyDecision) -> None:
        """See Observer. A request has a trail; here are those who are refused before they have asked for anything."""
        if not decision.api_name and self._may(decision.peer, decision.now_ms):
            refusal = _refusal(decision.policy, decision.error, decision.message)
            line = {"ts": _time(decision.now_ms * 1000), "event": "connect_refused"}
            self._put({**line, **_who(decision.peer), **refusal})

    def _may(self, peer: Peer, now_ms: int) -> bool:
        second = now_ms // 1000
        if second != self._second:
            self._second = second
            self._lines.clear()
        who = (peer.user, peer.host)
        self._lines[who] += 1
        if self._lines[who] <= LINES_PER_SECOND:
            return True
        self.suppressed += 1
        self._unsaid += 1
        return False

    def _put(self, line: dict[str, object]) -> None:
        if self._unsaid:
            line["suppressed"], self._unsaid = self._unsaid, 0
        self._sink.write(_encode(line).decode() + "\n")

    # -- the thread ------------------------------------------------------------------------------

    def _write(self, data: bytes) -> int:
        self._file.append(data)
        return len(data)


def _notice(lines: int) -> str:
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    return _encode({"ts": now, "event": "lines_lost", "lines": lines}).decode() + "\n"


def _time(us: int) -> str:
    return datetime.fromtimestamp(us / 1_000_000, UTC).isoformat(timespec="milliseconds")


def _who(peer: Peer) -> dict[str, object]:
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


def _text(text: str) -> str:
    """JSON escapes control characters; half a surrogate pair has no UTF-8."""
    return text[:TEXT_MAX_CHARS].encode(errors="backslashreplace").decode()
