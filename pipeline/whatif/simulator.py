"""A closed-loop simulation of recorded clients under another quota, with the quota policy itself.

Rules:
- A client sends its next request when it has its reply and has thought; a request is read when its connection is not
  muted. So a throttled client sends later, not less.
- Requests of a connection are read, forwarded and answered in order. A held request, and a throttle, mute the
  connection; requests that were sent meanwhile wait. Of several throttles the latest end counts.
- Alarms of the policy ring at their time, and wake held requests, as in the proxy. Times are whole milliseconds.
"""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

from pipeline.whatif.capture import CapturedReply, CaptureHost, hears, judge
from policies.api import EXEMPT, Forward, Hold, Throttle
from policies.quota.policy import Quota

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from pipeline.whatif.script import ClientSession
    from policies.api import Verdict
    from policies.quota.config import QuotaConfig


class Passed(NamedTuple):
    """One request of the simulation that was forwarded, and by how much it and its client were delayed."""

    session: int
    step: int
    asked_ms: int
    forwarded_ms: int
    replied_ms: int
    throttle_ms: int
    """How long its connection was muted because of it, after it was forwarded."""
    charged: bool

    @property
    def delay_ms(self) -> int:
        """Its own wait, and the throttle time that it brought."""
        return self.forwarded_ms - self.asked_ms + self.throttle_ms


class Blocked(NamedTuple):
    """A time in which a connection was held or throttled."""

    session: int
    since_ms: int
    until_ms: int


class Simulation:
    """Runs the sessions until `until_ms`; `passed` and `blocked` are in the order in which they ended."""

    def __init__(
        self, sessions: Sequence[ClientSession], config: QuotaConfig, until_ms: int
    ) -> None:
        self.passed: list[Passed] = []
        self.blocked: list[Blocked] = []
        self.now_ms = 0
        self._events: list[tuple[int, int, Callable[[int], None]]] = []
        self._order = 0
        self.policy = Quota(config, _SimulatedHost(self))
        self.waiting: dict[Hashable, _Connection] = {}
        connections = [_Connection(self, place, each) for place, each in enumerate(sessions)]
        for connection, session in zip(connections, sessions, strict=True):
            if session.follows is None:
                self.call_at(session.start_ms, connection.send)
            else:
                connections[session.follows].followed_by = connection
        while self._events and self._events[0][0] <= until_ms:
            self.now_ms, _, call = heappop(self._events)
            call(self.now_ms)

    def call_at(self, at_ms: int, call: Callable[[int], None]) -> None:
        """Call it at that time, or now if that is past; calls of the same time in order."""
        self._order += 1
        heappush(self._events, (max(at_ms, self.now_ms), self._order, call))


class _SimulatedHost(CaptureHost):
    """The host whose alarms ring in the simulation."""

    def __init__(self, simulation: Simulation) -> None:
        super().__init__()
        self._simulation = simulation

    def wake(self, key: Hashable) -> int:
        """Have the request that waits for this key judged again."""
        connection = self._simulation.waiting.pop(key, None)
        if connection is None:
            return 0
        connection.judge_again(self._simulation.now_ms)
        return 1

    def call_at(self, at_ms: int, call: Callable[[int], None]) -> None:
        """Call it at that time of the simulation."""
        self._simulation.call_at(at_ms, call)


class _Connection:
    """One session: what is sent and not read, what is read and not answered, and until when it is muted."""

    def __init__(self, simulation: Simulation, place: int, session: ClientSession) -> None:
        self._simulation = simulation
        self._place = place
        self._session = session
        self._next = 0  # the step to be sent next
        self._sent_ms = 0
        self._unread: deque[tuple[int, int]] = deque()
        self._asking: tuple[int, int] | None = None  # the held step, and when it was asked about
        self._muted_until_ms = 0
        self._replies = 0
        self._last_reply_ms = 0  # when the last request that was forwarded is answered
        self._awaits_reply = False  # the next step waits for a reply
        self._open = 0  # steps that are not answered yet
        self.followed_by: _Connection | None = None

    def send(self, now_ms: int) -> None:
        """Send the next step, and plan the one after it."""
        self._unread.append((self._next, now_ms))
        self._sent_ms = now_ms
        self._next += 1
        self._open += 1
        self._plan(now_ms)
        self._read(now_ms)

    def follow(self, now_ms: int) -> None:
        """Begin after the session before has ended."""
        next_ms = now_ms + self._session.steps[0].think_ms
        self._simulation.call_at(next_ms, self.send)

    def judge_again(self, now_ms: int) -> None:
        """Ask the policy about the held request again."""
        assert self._asking is not None  # noqa: S101 - it waits for a key
        (step, asked_ms), self._asking = self._asking, None
        self._judge(step, asked_ms, now_ms)
        self._read(now_ms)

    def _plan(self, now_ms: int) -> None:
        steps = self._session.steps
        if self._next == len(steps):
            if not self._open and self.followed_by is not None:
                self.followed_by.follow(now_ms)
            return
        step = steps[self._next]
        self._awaits_reply = step.after > self._replies
        if not self._awaits_reply:
            self._simulation.call_at(now_ms + step.think_ms, self.send)

    def _read(self, now_ms: int) -> None:
        while self._unread and self._asking is None and now_ms >= self._muted_until_ms:
            step, _ = self._unread.popleft()
            self._judge(step, now_ms, now_ms)

    def _judge(self, number: int, asked_ms: int, now_ms: int) -> None:
        simulation = self._simulation
        step = self._session.steps[number]
        verdict = judge(simulation.policy, step.request, self._session.peer, now_ms)
        if isinstance(verdict, Hold):
            self._asking = (number, asked_ms)
            simulation.waiting[verdict.watch] = self
            return
        if now_ms > asked_ms:
            simulation.blocked.append(Blocked(self._place, asked_ms, now_ms))
        throttle_ms = 0
        if isinstance(verdict, Throttle):
            throttle_ms = self._mute(now_ms, now_ms + verdict.throttle_time_ms)
        charged = step.charged and not _exempts(verdict)
        if step.silent:
            self._end(Passed(self._place, number, asked_ms, now_ms, now_ms, throttle_ms, charged))
            return
        self._last_reply_ms = max(now_ms, self._last_reply_ms) + step.broker_ms

        def reply(now_ms_: int) -> None:
            self._reply(number, asked_ms, now_ms, throttle_ms, charged=charged, now_ms=now_ms_)

        simulation.call_at(self._last_reply_ms, reply)

    def _reply(
        self,
        number: int,
        asked_ms: int,
        forwarded_ms: int,
        throttle_ms: int,
        *,
        charged: bool,
        now_ms: int,
    ) -> None:
        simulation = self._simulation
        step = self._session.steps[number]
        until_ms = now_ms + step.broker_throttle_ms
        if hears(simulation.policy, step.request):
            reply = CapturedReply(step.reply_bytes, step.broker_throttle_ms)
            said = simulation.policy.on_response(step.request, reply, self._session.peer, now_ms)
            if isinstance(said, Throttle):
                until_ms = max(until_ms, now_ms + said.throttle_time_ms)
        throttle_ms += self._mute(now_ms, until_ms)
        self._replies += 1
        if self._awaits_reply and self._session.steps[self._next].after <= self._replies:
            self._awaits_reply = False
            next_ms = max(now_ms, self._sent_ms) + self._session.steps[self._next].think_ms
            simulation.call_at(next_ms, self.send)
        self._end(Passed(self._place, number, asked_ms, forwarded_ms, now_ms, throttle_ms, charged))

    def _end(self, passed: Passed) -> None:
        self._simulation.passed.append(passed)
        self._open -= 1
        if self._next == len(self._session.steps):
            self._plan(self._simulation.now_ms)

    def _mute(self, now_ms: int, until_ms: int) -> int:
        """Mute until then; return by how many ms that is longer than before."""
        known_ms = max(now_ms, self._muted_until_ms)
        if until_ms <= known_ms:
            return 0
        self._muted_until_ms = until_ms
        self._simulation.blocked.append(Blocked(self._place, known_ms, until_ms))
        self._simulation.call_at(until_ms, self._read)
        return until_ms - known_ms


def _exempts(verdict: Verdict | None) -> bool:
    """Return whether no quota counts the request. `None`: the policy is not asked, as for a request without limit."""
    if isinstance(verdict, Throttle):
        verdict = verdict.forward
    return verdict is EXEMPT or (isinstance(verdict, Forward) and verdict.exempt)
