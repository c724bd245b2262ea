"""The clients of a capture without its delays: how long each took between a reply and its next request.

Rules:
- A request depends on the last reply that its client had, and on the request before it (pipelining). The think time is
  the rest.
- A request that came as soon as its connection was read again had waited there; how long is not known. It is sent as
  soon as its client can. So a client that was throttled all the time has no think time here.
- The broker takes as long as it took: from the later of its forwarding and the reply before it, to its own reply.
- A session that begins within a second of the end of another one of the same client follows it: the client reconnects.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pipeline.whatif.capture import peer_of, request_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pipeline.whatif.capture import CapturedRequest, Row
    from policies.api import Peer

WAITED_MS: Final = 2
"""A request that was asked about within this time after a mute had waited for the end of the mute."""
RECONNECT_MS: Final = 1000


@dataclass(slots=True)
class ClientStep:
    """One request of a session."""

    request: CapturedRequest
    think_ms: int
    """From the later of its reply and its request before it, to its sending."""
    after: int
    """How many replies of its session it waits for."""
    broker_ms: int
    reply_bytes: int
    broker_throttle_ms: int
    silent: bool
    """It has no reply (acks=0)."""
    charged: bool


@dataclass(slots=True)
class ClientSession:
    """The requests of one connection. The think time of the first one counts from `start_ms`, or from the end of
    the session that it follows.
    """

    peer: Peer
    start_ms: int
    end_ms: int
    steps: list[ClientStep] = field(default_factory=list)
    follows: int | None = None
    """The place of the session of the same client that ended before, in the list of all."""


def sessions_of(rows: Iterable[Row]) -> list[ClientSession]:
    """Return the sessions of the capture of one process, in the order in which they begin."""
    by_session: dict[int, list[Row]] = {}
    for row in sorted(rows, key=lambda each: int(each["event"])):
        by_session.setdefault(row["session"], []).append(row)
    sessions = [_session(each) for each in by_session.values()]
    sessions.sort(key=lambda each: each.start_ms)
    _chain(sessions)
    return sessions


def _session(rows: Sequence[Row]) -> ClientSession:
    session = ClientSession(
        peer_of(rows[-1]), rows[0]["now_ms"], max(row["ended_ms"] for row in rows)
    )
    replies = sorted(
        row["replied_ms"] or row["ended_ms"]
        for row in rows
        if row["replied_event"] or row["outcome"] in ("replied", "answered", "expired")
    )
    answered = 0  # replies that precede this request's own
    sent_ms = readable_ms = 0
    for row in rows:
        asked_ms = row["now_ms"]
        after = min(bisect_right(replies, asked_ms), answered)
        base_ms = max(sent_ms, replies[after - 1] if after else 0) or asked_ms
        waited = asked_ms <= readable_ms + WAITED_MS
        think_ms = 0 if waited else max(0, asked_ms - base_ms)
        sent_ms = base_ms + think_ms
        forwarded_ms = row["released_ms"][-1] if row["released_ms"] else asked_ms
        silent = row["outcome"] == "no_reply"
        replied_ms = row["replied_ms"] or row["ended_ms"]
        began_ms = max(forwarded_ms, replies[answered - 1] if answered else 0)
        throttled_ms = max(row["reply_delay_ms"], row["reply_throttle_time_ms"])
        readable_ms = max(
            readable_ms,
            forwarded_ms + row["delay_ms"] if row["released_ms"] or row["delay_ms"] else 0,
        )
        if throttled_ms:
            readable_ms = max(readable_ms, replied_ms + throttled_ms)
        session.steps.append(
            ClientStep(
                request_of(row),
                think_ms,
                after,
                max(0, replied_ms - began_ms),
                row["reply_bytes"],
                row["reply_throttle_time_ms"],
                silent,
                row["charged"],
            )
        )
        if not silent and answered < len(replies):
            answered += 1
    return session


def _chain(sessions: Sequence[ClientSession]) -> None:
    """Let each session follow the one of its client that ended last before it, if that is not long ago."""
    ended: dict[tuple[str, str], list[int]] = {}
    by_end = sorted(range(len(sessions)), key=lambda place: sessions[place].end_ms)
    done = 0
    for session in sessions:
        while done < len(by_end) and sessions[by_end[done]].end_ms <= session.start_ms:
            peer = sessions[by_end[done]].peer
            ended.setdefault((peer.user, peer.client_id), []).append(by_end[done])
            done += 1
        waiting = ended.get((session.peer.user, session.peer.client_id))
        if waiting and session.start_ms - sessions[waiting[-1]].end_ms <= RECONNECT_MS:
            session.follows = waiting.pop()
            session.steps[0].think_ms = session.start_ms - sessions[session.follows].end_ms
