"""The exact replay of a capture: the quota policy itself gets the same questions in the same order at the same times.

Rules:
- One policy for each start of a process (`instance`, `boot`). It is new, as it was when the capture began.
- Only the quota policy is asked. A delay of another policy shows as a difference, and so does a live change of a quota.
- A lost row makes later delays wrong, so gaps in the numbers of the events are counted.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from policies.api import EXEMPT, Hold, Peer, Throttle
from policies.entry_tools import EntryTools
from policies.quota.policy import Quota
from policies.requests import BodyReader
from wire.apis import SIGN_ON

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence

    from policies.api import QuotaViolation, Verdict
    from policies.quota.config import QuotaConfig
    from wire.apis import Api

Row = dict[str, Any]  # of the family `capture`, by column


@dataclass(slots=True)
class CapturedRequest(BodyReader):
    """A request as the capture recorded it, for the policy. Its body was not recorded."""

    api_key: int
    api_version: int
    exchange_id: int
    node_id: int | None
    size_bytes: int
    acks: int | None
    signs_on: bool = False
    """Whether it was part of a sign-on: no quota counts it."""
    head: None = None
    body: None = None
    decoded: None = None
    names: None = None

    @property
    def id(self) -> int:
        """Raise, as `api`."""
        raise NotImplementedError

    @property
    def peer(self) -> Peer:
        """Raise, as `api`."""
        raise NotImplementedError

    @property
    def began_ms(self) -> int:
        """Raise, as `api`."""
        raise NotImplementedError

    @property
    def api(self) -> Api:
        """Raise, because no rule of the quota policy reads it."""
        raise NotImplementedError


class CapturedReply(NamedTuple):
    """A reply as the capture recorded it."""

    size_bytes: int
    throttle_time_ms: int
    body: None = None
    errors: None = None


@dataclass
class CaptureHost(EntryTools):
    """The host of a policy whose alarms and wake-ups come from the capture, so its own are ignored."""

    name: str = "quota"
    observes: bool = False

    def __post_init__(self) -> None:
        super().__init__(self.name, self.read)

    def wake(self, key: Hashable) -> int:
        """Do nothing: the capture says when a request was asked about again."""
        return 0

    def call_at(self, at_ms: int, call: Callable[[int], None]) -> None:
        """Do nothing, as `wake`."""

    def speaks_as_itself(self) -> bool:
        """Return True: nobody knows, and the brokers may judge Sluice."""
        return True

    def topic_name(self, topic_id: bytes) -> str | None:
        """Return None: a capture has no names of topics."""
        return None

    def reconsider(self) -> None:
        """Do nothing: the quotas do not change."""

    def review_throttles(self, until_ms: Callable[[Peer, QuotaViolation], float]) -> None:
        """Do nothing, as `reconsider`."""

    def load(self, path: str) -> bytes | None:
        """Return None: there is no state file."""
        return None

    def read(self, path: str, max_bytes: int) -> bytes:
        """Raise FileNotFoundError: the limits are in the settings."""
        raise FileNotFoundError(path)

    def save(self, path: str, data: bytes) -> None:
        """Do nothing, as `load`."""


@dataclass
class Played:
    """The verdicts on one request and on its reply."""

    verdict: str
    delay_ms: int = 0
    reply_delay_ms: int = 0


@dataclass
class ReplayCheck:
    """The delays of a replay against those of the capture."""

    requests: int = 0
    delayed: int = 0  # held or throttled when they were recorded
    lost_events: int = 0
    different: list[tuple[int, Played, Played]] = field(default_factory=list)
    """`seq`, the recorded verdicts and the replayed ones, where they differ."""


def replay(rows: Sequence[Row], config: QuotaConfig) -> dict[int, Played]:
    """Return by `seq` the verdicts of a new quota policy on the recorded requests of one process."""
    policy = Quota(config, CaptureHost())
    played: dict[int, Played] = {}
    for row, what, now_ms in _history(rows):
        request, peer, seq = request_of(row), peer_of(row), row["seq"]
        if what == "request":
            played[seq] = _said(judge(policy, request, peer, now_ms))
        elif what == "reply":
            reply = CapturedReply(row["reply_bytes"], row["reply_throttle_time_ms"])
            if not hears(policy, request):
                continue
            said = policy.on_response(request, reply, peer, now_ms)
            played[seq].reply_delay_ms = said.throttle_time_ms if isinstance(said, Throttle) else 0
        else:
            policy.on_disconnect(peer, now_ms)
    return played


def _history(rows: Sequence[Row]) -> Iterator[tuple[Row, str, int]]:
    """Yield each call of the policies in order: the row, what it was about, and its time."""
    calls: list[tuple[int, int, str, Row]] = []
    for row in rows:
        calls.append((row["event"], row["now_ms"], "request", row))
        again = zip(row["released_event"], row["released_ms"], strict=True)
        calls += [(event, at_ms, "request", row) for event, at_ms in again]
        if row["replied_event"]:
            calls.append((row["replied_event"], row["replied_ms"], "reply", row))
    calls.sort(key=lambda call: call[0])
    times_ms = [at_ms for _, at_ms, _, _ in calls]
    gone: list[tuple[float, int, str, Row]] = []
    for row in rows:
        if row["outcome"] == "disconnected":  # it has no number: after its own calls, by its time
            before = bisect_left(times_ms, row["ended_ms"])
            place = calls[before - 1][0] if before else 0
            last = max(row["event"], row["replied_event"], *row["released_event"])
            gone.append((max(place, last) + 0.5, row["ended_ms"], "gone", row))
    for _, at_ms, what, row in sorted([*calls, *gone], key=lambda call: call[0]):
        yield row, what, at_ms


def recorded(rows: Sequence[Row]) -> dict[int, Played]:
    """Return by `seq` the verdicts that the capture recorded."""
    return {
        row["seq"]: Played(row["verdict"], row["delay_ms"], row["reply_delay_ms"]) for row in rows
    }


def compare(rows: Sequence[Row], config: QuotaConfig) -> ReplayCheck:
    """Replay the capture of one process with the quotas it was recorded under, and compare every delay."""
    was, now = recorded(rows), replay(rows, config)
    found = ReplayCheck(len(rows), lost_events=lost_events(rows))
    for row in sorted(rows, key=lambda each: int(each["seq"])):
        seq = row["seq"]
        before, after = was[seq], now[seq]
        found.delayed += bool(row["released_ms"] or before.delay_ms or before.reply_delay_ms)
        if (before.delay_ms, before.reply_delay_ms) != (after.delay_ms, after.reply_delay_ms):
            found.different.append((seq, before, after))
    return found


def lost_events(rows: Sequence[Row]) -> int:
    """Return how many calls of the policies are missing in the capture of one process: numbers without a row."""
    seen: set[int] = set()
    for row in rows:
        seen.update((row["event"], row["replied_event"], *row["released_event"]))
    seen.discard(0)
    return max(seen, default=0) - len(seen)


def judge(policy: Quota, request: CapturedRequest, peer: Peer, now_ms: int) -> Verdict | None:
    """Return the verdict on a request; None if the policy is not asked about it."""
    if not _sees(policy, request):
        return None
    return policy.on_request(request, peer, now_ms)


def hears(policy: Quota, request: CapturedRequest) -> bool:
    """Return whether the policy is told of the reply to this request."""
    heard = policy.response_apis
    return _sees(policy, request) and (heard is None or request.api_key in heard)


def _sees(policy: Quota, request: CapturedRequest) -> bool:
    asked = policy.apis is None or request.api_key in policy.apis
    return asked and not request.signs_on


def request_of(row: Mapping[str, Any]) -> CapturedRequest:
    """Return the request of a row."""
    key, version, number = row["api_key"], row["api_version"], row["exchange"]
    node, size_bytes, acks = row["node"], row["size_bytes"], row["acks"]
    signs_on = key in SIGN_ON and not row["charged"]
    return CapturedRequest(key, version, number, node, size_bytes, acks, signs_on)


def peer_of(row: Mapping[str, Any]) -> Peer:
    """Return the client of a row."""
    return Peer(row["session"], "", 0, row["node"], client_id=row["client_id"], user=row["user"])


def _said(verdict: Verdict | None) -> Played:
    if verdict is None:
        return Played("none")
    if verdict is EXEMPT:
        return Played("exempt")
    if isinstance(verdict, Throttle):
        return Played("throttle", verdict.throttle_time_ms)
    return Played("hold" if isinstance(verdict, Hold) else type(verdict).__name__.lower())
