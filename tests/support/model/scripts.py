"""Scripts of one session, made from a seed: the client's requests, a policy's verdicts, events, and their times.

A script has no chunks: the same script must end the same way under any chunking.
"""

import struct
from dataclasses import dataclass, field
from random import Random

from policies.api import (
    EXEMPT,
    FORWARD,
    Forward,
    Hold,
    Need,
    Outcome,
    Patch,
    Peer,
    Policy,
    Reject,
    Request,
    Respond,
    Response,
    Result,
    Verdict,
)
from policies.api import Throttle as ThrottleVerdict
from policies.testing import BenchHost
from tests.support.messages import frames as f
from tests.support.messages.many_partitions import produce_many, produce_many_reply
from tests.support.messages.throttled import KINDS, fetch, fetch_reply
from wire.errors import ErrorCode
from wire.request_layouts import names_anything
from wire.topic_refs import TopicRef

HEADER_BYTES = 19
"""Of every frame here: the client id is "tests"."""
ANSWER = struct.pack(">ih", 0, 42)
REFUSAL = struct.pack(">ih", 0, ErrorCode.POLICY_VIOLATION)
OTHER_BODY = f.string("another group") + struct.pack(">i", 7) + f.string("member")
KEYS = 3
HANG_MS = 45_000
"""A time after which every deadline of a request has passed."""
CALM_MS = 1_000
"""The longest other pause: no deadline of a request is reached."""
GARBAGE = (
    struct.pack(">i", 3) + b"abcdefgh",
    b"GET / HTTP/1.1\r\n\r\n",
    f.request(999, 0, 1, b"abc"),
    f.request(f.HEARTBEAT, 77, 1, b"abc"),
    f.frame(struct.pack(">hhih", f.HEARTBEAT, 0, 1, 300) + b"abc"),
)
BROKER_GARBAGE = (
    struct.pack(">ii", 2, 1),
    b"HTTP/1.1 400 Bad Request\r\n\r\n",
    f.beat_reply(77_777),
)


@dataclass
class Asked:
    """One request, and everything that is decided about it beforehand."""

    number: int
    kind: str
    data: bytes
    head_bytes: int
    """The number of bytes that must arrive before it is judged."""
    says: list[tuple]
    """The policy's verdicts in order; after them ("forward",)."""
    hears: tuple = ("forward",)
    """The policy's verdict on the reply."""
    replied_ms: int = 0
    """The throttle_time_ms in the broker's reply."""

    @property
    def silent(self) -> bool:
        """Return whether no reply is due."""
        return self.kind == "silent"

    def reply(self) -> bytes:
        """Return the broker's reply."""
        return _REPLIES[self.kind](self.number, self.replied_ms)

    def seen(self, throttle_time_ms: int) -> bytes:
        """Return the reply as the client must see it."""
        return _SEEN.get(self.kind, _REPLIES[self.kind])(self.number, throttle_time_ms)


@dataclass
class Script:
    """`events` in order; `stream` is all the client sends, cut by them."""

    seed: int
    policy: bool
    needs: Need
    hears: bool
    asked: list[Asked]
    garbage: bytes
    request_bytes: int
    response_bytes: int
    events: list[tuple] = field(default_factory=list)

    @property
    def stream(self) -> bytes:
        """Return all bytes that the client sends."""
        return b"".join(each.data for each in self.asked) + self.garbage


_METADATA = KINDS["metadata-v3"]
_PRODUCE = KINDS["produce-v3"].reply
_VERSIONS = KINDS["api-versions-v1"]
_REPLIES = {
    "beat": f.beat_reply,
    "one": _PRODUCE,
    "produce": _PRODUCE,
    "bulk": _PRODUCE,
    "many": produce_many_reply,
    "fetch": lambda number, ms: fetch_reply(number, ms, 20 + number * 37 % 90),
    "metadata": _METADATA.reply,
    "versions": _VERSIONS.reply,
}
_SEEN = {"metadata": _METADATA.seen, "versions": _VERSIONS.seen}
_KINDS = ("beat",) * 5 + (
    "silent",
    "silent",
    "one",
    "produce",
    "bulk",
    "many",
    "fetch",
    "metadata",
    "versions",
)


def _data_of(kind: str, number: int, needs: Need) -> tuple[bytes, int]:
    """Return the frame, and the number of its bytes that must arrive before a policy is asked."""
    if kind == "beat":
        return f.beat(number), HEADER_BYTES
    if kind == "metadata":
        return _METADATA.ask(number), HEADER_BYTES
    if kind == "versions":
        return _VERSIONS.ask(number), HEADER_BYTES
    if kind == "fetch":
        return fetch(number), HEADER_BYTES + (17 if needs is Need.HEAD else 12)
    if kind == "many":
        return produce_many(
            number
        ), HEADER_BYTES + 8  # the compact id is a byte shorter, the header has tags
    acks = {"silent": 0, "one": 1}.get(kind, -1)
    size = 900 + number * 131 % 2_000 if kind == "bulk" else number * 13 % 300
    return f.produce(number, acks, size), HEADER_BYTES + (8 if acks < 0 else 4)


def _ends(rng: Random, kind: str, needs: Need) -> tuple:
    """Return a final verdict."""
    choices: list[tuple] = [("forward",)] * 4 + [("exempt",)]
    if kind == "beat":
        choices += [("respond",), ("respond",), ("reject", False), ("reject", False)]
        choices += [("patch",)] if needs >= Need.HEAD else []
        choices += [("body",)] if needs >= Need.BODY else []
        choices += [("reject", True)] if rng.random() < 0.1 else []
    if kind == "silent" and rng.random() < 0.1:
        choices += [("respond",), ("reject", False)]
    return rng.choice(choices)


def _says(rng: Random, kind: str, needs: Need) -> list[tuple]:
    says = []
    while rng.random() < 0.15 and len(says) < 2:
        then = ("reject", False) if kind == "beat" and rng.random() < 0.3 else ("forward",)
        says.append(("hold", rng.choice([30, 90, 400]), rng.randrange(KEYS), then))
    if rng.random() < 0.02:
        return [*says, ("raise",)]
    end = _ends(rng, kind, needs)
    if rng.random() < 0.2:
        end = ("throttle", rng.choice([0, 20, 150]), end)
    return [*says, end]


def script(rng: Random, seed: int, *, faults: bool = True, policy: bool | None = None) -> Script:
    """One script. Without `faults` everything is answered in the end."""
    with_policy = rng.random() < 0.85 if policy is None else policy
    needs = rng.choice([Need.HEADER, Need.HEADER, Need.HEAD, Need.BODY, Need.TOPICS])
    hears = rng.random() < 0.6
    kinds = (
        _KINDS
        if rng.random() < 0.7
        else ("produce", "bulk", "many", "fetch", "fetch", "beat", "silent")
    )
    asked = []
    for number in range(1, rng.randrange(2, 14)):
        kind = rng.choice(kinds)
        data, head_bytes = _data_of(kind, number, needs if with_policy else Need.HEADER)
        says = _says(rng, kind, needs) if with_policy else []
        each = Asked(number, kind, data, head_bytes, says)
        each.replied_ms = rng.choice([0, 0, 0, 40, 170])
        if rng.random() < 0.12:
            each.hears = ("throttle", rng.choice([15, 110]))
        elif faults and rng.random() < 0.015:
            each.hears = ("raise",)
        asked.append(each)
    made = Script(
        seed,
        with_policy,
        needs,
        hears,
        asked,
        rng.choice(GARBAGE) if faults and rng.random() < 0.25 else b"",
        rng.choice([-1, -1, 8_000, 30_000]),
        rng.choice([-1, -1, 2_000, 30_000]),
    )
    if not faults:
        for each in asked:
            each.says = [one for one in each.says if one != ("raise",)]
    _fill(made, rng, faults=faults)
    return made


def _fill(made: Script, rng: Random, *, faults: bool) -> None:
    """Add the events, in random order."""
    events = made.events
    left = len(made.stream)
    calm_ms, hung = CALM_MS, not faults
    silent = faults and rng.random() < 0.3  # the broker is silent before it hangs
    for _ in range(rng.randrange(3, 30)):
        what = rng.random()
        if what < 0.4 and left:
            size = min(left, rng.choice([5, 30, 60, 200, 700, 4_000]))
            left -= size
            if left < len(made.garbage):  # garbage arrives as a whole
                size, left = size + left, 0
            events.append(("client", size))
        elif what < 0.7:
            if silent and not hung:
                continue
            events.append(("broker", rng.choice([1, 1, 2, 5])))
        elif what < 0.85:
            elapsed_ms = rng.choice([1, 10, 40, 110, 200])
            if elapsed_ms <= calm_ms:
                calm_ms -= elapsed_ms
                events.append(("time", elapsed_ms))
        elif what < (0.87 if silent else 0.93):
            events.append(("wake", rng.randrange(KEYS)))
        elif not hung:
            hung, calm_ms = True, CALM_MS
            events.append(("time", HANG_MS))
    often = {"plans are forgotten": 0.3}
    if faults:
        often |= {"drain": 0.1, "client hangs up": 0.2}
    for what, chance in often.items():
        if rng.random() < chance:
            events.insert(rng.randrange(len(events) + 1), (what,))
    if left:
        events.append(("client", left))
    ending = rng.random() if faults else 1.0
    if ending < 0.1:
        events.append(("broker lies", rng.choice(BROKER_GARBAGE), rng.randrange(4)))
    elif ending < 0.2:
        events.append(("broker dies", rng.randrange(4), rng.random()))
    elif ending < 0.25:
        events.append(("client dies",))
    else:
        events.append(("settle",))  # every wait and every mute ends
        if ending < 0.6:
            events += [("client leaves",), ("broker", 20)]


class Scripted(Policy):
    """Gives the verdicts of the script, and remembers each request's outcome."""

    Config = dict

    def __init__(self, made: Script) -> None:
        super().__init__({}, BenchHost())
        self.needs = made.needs
        self.asked: dict[int, list[tuple]] = {each.number: list(each.says) for each in made.asked}
        self.completed: dict[int, list[str]] = {}
        self.named: list[tuple[int, tuple[TopicRef, ...], tuple[str, ...]]] = []

    def on_request(self, request: Request, peer: Peer, now_ms: int) -> Verdict:
        if self.needs is Need.TOPICS and names_anything(request.api_key):
            self.named.append((request.correlation_id, request.topics, request.groups))
        says = self.asked[request.correlation_id]
        return verdict_of(says.pop(0) if says else ("forward",))

    def on_complete(
        self, request: Request, outcome: Outcome, peer: Peer, result: Result, now_ms: int
    ) -> None:
        self.completed.setdefault(request.correlation_id, []).append(outcome.value)


class Listening(Scripted):
    """As Scripted, with verdicts on replies."""

    def __init__(self, made: Script) -> None:
        super().__init__(made)
        self.hears_of = {each.number: each.hears for each in made.asked}

    def on_response(
        self, request: Request, response: Response, peer: Peer, now_ms: int
    ) -> Forward | ThrottleVerdict:
        return verdict_of(self.hears_of[request.correlation_id])


def verdict_of(said: tuple) -> Verdict:
    """Return the real verdict for a script's tuple."""
    match said:
        case ("forward",):
            return FORWARD
        case ("exempt",):
            return EXEMPT
        case ("patch",):
            return Forward((Patch(2, b"G"),))
        case ("body",):
            return Forward(body=OTHER_BODY)
        case ("respond",):
            return Respond(ANSWER)
        case ("reject", close):
            return Reject(ErrorCode.POLICY_VIOLATION, close)
        case ("throttle", ms):
            return ThrottleVerdict(ms)
        case ("throttle", ms, end):
            return ThrottleVerdict(ms, verdict_of(end))
        case ("hold", ms, key, then):
            return Hold(ms, key, verdict_of(then))
    raise ZeroDivisionError("as the script says")
