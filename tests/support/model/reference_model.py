"""A plain model of a session that runs a script: one frame at a time, no buffers, no fast paths.

It is written from the documents, not from the code it is compared with. Time is in milliseconds. Only whole frames
count.
"""

import struct
from collections import deque
from dataclasses import dataclass

from policies.api import Need
from tests.support.messages import frames as f
from tests.support.messages.many_partitions import produce_many_timed_out
from tests.support.model.scripts import ANSWER, HEADER_BYTES, OTHER_BODY, REFUSAL, Asked, Script

LAST_REPLIES_MS = 30_000


class PolicyRaisedError(Exception):
    """A policy raised."""


@dataclass
class Due:
    """A reply that is due, in the order of the requests. `made`: a local reply that waits for its turn."""

    asked: Asked
    throttle_until_ms: int = 0
    made: bytes = b""
    swallowed: bool = False


class Model:
    """One session. `to_broker` and `to_client` are lists of whole frames."""

    def __init__(self, made: Script) -> None:
        self.script = made
        self.now_ms = 0
        self.coming = deque(made.asked)
        self.come_bytes = 0  # of what is in `coming`, and of the garbage after it
        self.says = {each.number: list(each.says) for each in made.asked}
        self.passing: Asked | None = None  # the request that has begun and is not complete
        self.verdict: tuple | None = (
            None  # what is done when it is whole; None: it is asked about then
        )
        self.mode = ""  # of the passing request: stream, keep or drop
        self.throttle_until_ms = 0  # the throttle in the reply of the kept request
        self.held: tuple[Asked, int, int, tuple] | None = None
        self.judged: tuple[Asked, tuple] | None = None  # it was held, and waits for its turn
        self.muted = False
        self.mute_after_request = False  # mute as soon as the passing request is whole
        self.throttled_until_ms = 0
        self.due: deque[Due] = deque()
        self.at_broker: deque[Due] = deque()  # requests that the broker has and has not answered
        self.to_broker: list[bytes] = []
        self.to_client: list[bytes] = []
        self.completed: dict[int, list[str]] = {}
        self.ending = self.ended = self.draining = False
        self.reason: str | None = None
        self.give_up_ms: int | None = None

    # -- events --------------------------------------------------------------------------------

    def client(self, size: int) -> None:
        """Let so many more bytes arrive."""
        self.come_bytes += size
        self.work()

    def broker(self, count: int) -> bytes:
        """Let the broker reply to so many requests; return what it sends."""
        sent = b""
        for _ in range(count):
            if not self.at_broker:
                break
            due = self.at_broker.popleft()
            sent += due.asked.reply()
            if not self.ended:
                self.reply(due)
        self.work()
        return sent

    def time(self, elapsed_ms: int, hang_ms: int) -> None:
        """Let time pass; from `hang_ms` on the broker's time is up for every request that may wait."""
        self.now_ms += elapsed_ms
        if self.held is not None and self.now_ms >= self.held[1]:
            asked, _, _, then = self.held
            self.held, self.judged = None, (asked, then)
        if self.now_ms >= self.throttled_until_ms:
            self.muted = self.mute_after_request = False
        if elapsed_ms >= hang_ms:
            self.expire()
        if self.give_up_ms is not None and self.now_ms >= self.give_up_ms:
            self.end("")
        self.work()

    def wake(self, key: int) -> None:
        """Judge the request that is held for this key again."""
        if self.held is not None and self.held[2] == key:
            asked = self.held[0]
            self.held = None
            said = self.ask(asked)
            if said[0] == "hold":
                self.hold(asked, said)
            else:
                if said[0] == "raise":
                    self.complete(asked, "disconnected")
                self.judged = (asked, said)
        self.work()

    def drain(self) -> None:
        """The proxy shuts down: what is held is forwarded at once, and the fetches that wait are answered."""
        if self.held is not None:
            asked, _, _, then = self.held
            self.held, self.judged = None, (asked, then)
        if self.judged is not None or (self.passing is not None and self.mode == "keep"):
            self.muted = self.mute_after_request = False
        self.draining = True
        self.end_after_replies("drained")
        self.work()

    def client_leaves(self) -> None:
        """The client sends its end of stream."""
        if self.passing is not None:
            asked = self.passing
            if self.mode == "stream" and not asked.silent:
                lost = self.due.pop()
                assert lost.asked is asked
                self.complete(asked, "disconnected")
            elif self.mode == "keep" and self.verdict is not None:
                self.complete(asked, "disconnected")
            self.passing = None
        self.end_after_replies("client_closed")

    def client_hangs_up(self) -> None:
        """The client has closed its side behind a request that is held, whose reply it would not read."""
        if self.held is not None and not self.held[0].silent:
            self.complete(self.held[0], "disconnected")
            self.held = None
            self.end_after_replies("client_closed")

    def client_dies(self) -> None:
        """The client's connection breaks."""
        self.end("client_reset")

    def broker_dies(self) -> None:
        """The broker's connection breaks."""
        self.end("broker_reset")

    def broker_lies(self) -> None:
        """The broker sends bytes that no broker may send."""
        if not self.ended:
            self.end("broker_protocol")

    @property
    def waits(self) -> bool:
        """Return whether the client is muted, or will be."""
        return bool(self.muted or self.mute_after_request or self.held or self.judged)

    def is_idle(self) -> bool:
        """Return whether nothing more happens without an event."""
        return self.ended or not (self.due or self.at_broker or self.waits)

    def release(self) -> None:
        """Close both sides."""
        self.end("client_closed")
        if self.judged is not None and self.judged[1][0] != "raise":
            self.complete(self.judged[0], "disconnected")
        if self.passing is not None and self.mode == "keep" and self.verdict is not None:
            self.complete(self.passing, "disconnected")

    # -- requests ------------------------------------------------------------------------------

    def work(self) -> None:
        """Do everything that can be done with the bytes that have arrived."""
        try:
            while not self.ended and self.step():
                pass
            self.maybe_end()
        except PolicyRaisedError:
            self.fault("policy_fault")

    def step(self) -> bool:
        """Do one thing; return False if there is nothing to do."""
        if self.passing is not None:
            if self.come_bytes < len(self.passing.data):
                return False
            self.whole()
            return True
        if self.muted or self.held is not None:
            return False
        if self.judged is not None:
            (asked, said), self.judged = self.judged, None
            if said[0] == "raise":
                raise PolicyRaisedError
            if self.needs(asked) >= Need.BODY:
                self.throttle_until_ms = 0
                self.settle(asked, said)
                self.take(asked)
            else:
                self.begin(asked, said)
            return True
        if self.ending:
            return False
        if not self.coming:
            if self.come_bytes:
                self.come_bytes = 0
                self.fault("client_protocol")
            return False
        asked = self.coming[0]
        if self.come_bytes < asked.head_bytes:
            return False
        if self.needs(asked) >= Need.BODY:
            self.passing, self.mode, self.verdict = asked, "keep", None
        else:
            self.judge(asked, self.ask(asked))
        return True

    def needs(self, asked: Asked) -> Need:
        needs = self.script.needs if self.script.policy else Need.HEADER
        return Need.HEADER if needs is Need.TOPICS and asked.kind == "versions" else needs

    def ask(self, asked: Asked) -> tuple:
        says = self.says[asked.number]
        return says.pop(0) if says else ("forward",)

    def judge(self, asked: Asked, said: tuple) -> None:
        """Apply a policy's verdict on a request whose head has arrived."""
        if said[0] == "raise":
            self.complete(asked, "disconnected")
            raise PolicyRaisedError
        if said[0] == "hold":
            self.hold(asked, said)
        else:
            self.begin(asked, said)

    def hold(self, asked: Asked, said: tuple) -> None:
        _, ms, key, then = said
        self.held = (asked, self.now_ms + ms, key, then)

    def begin(self, asked: Asked, said: tuple) -> None:
        """Forward, keep or drop its first byte."""
        self.passing = asked
        self.throttle_until_ms = 0
        if said[0] == "throttle":
            self.quiet(asked, said[1])
            said = said[2]
        if said[0] in {"forward", "exempt"}:
            self.mode = "stream"
            self.send(asked)
        elif said[0] == "respond":
            self.mode = "drop"
            self.answer(asked, ANSWER)
        else:
            self.mode, self.verdict = "keep", said

    def whole(self) -> None:
        """The last byte of the passing request has arrived."""
        asked, mode = self.passing, self.mode
        assert asked is not None
        self.passing = None
        if mode == "stream":
            self.arrive(asked, asked.data)
        elif mode == "keep":
            said = self.verdict
            if said is None:
                said = self.ask(asked)
                if said[0] == "raise":
                    self.complete(asked, "disconnected")
                    raise PolicyRaisedError
                if said[0] == "hold" and not self.ending:
                    self.hold(asked, said)
                    self.begin_mute()
                    return
                if said[0] == "hold":  # nothing is held any more
                    said = said[3]
                self.throttle_until_ms = 0
            self.settle(asked, said)
        self.take(asked)

    def take(self, asked: Asked) -> None:
        """The request has passed."""
        assert self.coming[0] is asked
        self.coming.popleft()
        self.come_bytes -= len(asked.data)
        self.begin_mute()

    def begin_mute(self) -> None:
        """Mute the client, if it is to be muted from this boundary on; a request that is held waits, too."""
        if self.mute_after_request:
            self.mute_after_request, self.muted = False, True

    def settle(self, asked: Asked, said: tuple) -> None:
        """Apply the verdict on a request that has arrived whole."""
        if said[0] == "throttle":
            self.quiet(asked, said[1])
            said = said[2]
        if said[0] in {"forward", "exempt", "patch", "body"}:
            data = asked.data
            if said[0] == "patch":
                at = HEADER_BYTES + 2
                data = data[:at] + b"G" + data[at + 1 :]
            elif said[0] == "body":
                data = f.frame(data[4:HEADER_BYTES] + OTHER_BODY)
            self.send(asked)
            self.arrive(asked, data)
        elif said[0] == "respond":
            self.answer(asked, ANSWER)
        else:
            if asked.silent:
                self.complete(asked, "answered")
            else:
                self.answer(asked, REFUSAL)
            if said[1] or asked.silent:
                self.end_after_replies("policy")

    def send(self, asked: Asked) -> None:
        """Start to send it to the broker."""
        if asked.silent:
            self.complete(asked, "no_reply")
        else:
            self.due.append(Due(asked, self.throttle_until_ms))
        self.throttle_until_ms = 0

    def arrive(self, asked: Asked, data: bytes) -> None:
        """The broker has it whole, and may reply."""
        self.to_broker.append(data)
        if not asked.silent:
            self.at_broker.append(self.due[-1])

    def answer(self, asked: Asked, body: bytes) -> None:
        """Make a local reply, which is sent in its turn."""
        throttle_until_ms, self.throttle_until_ms = self.throttle_until_ms, 0
        if asked.silent:
            self.complete(asked, "answered")
            return
        said = self.heard(asked)
        if said[0] == "raise":
            self.complete(asked, "disconnected")
            raise PolicyRaisedError
        if said[0] == "throttle":
            throttle_until_ms = max(throttle_until_ms, self.now_ms + said[1])
        left_ms = max(throttle_until_ms - self.now_ms, 0)
        self.throttle(throttle_until_ms)
        reply = f.reply(asked.number, struct.pack(">i", left_ms) + body[4:])
        if self.due and not self.due[-1].swallowed:
            self.due.append(Due(asked, made=reply))
        else:
            self.to_client.append(reply)
            self.complete(asked, "answered")

    # -- replies -------------------------------------------------------------------------------

    def reply(self, due: Due) -> None:
        """The broker's reply to its oldest request has arrived."""
        assert self.due[0] is due
        if not due.swallowed:
            said = self.heard(due.asked)
            if said[0] == "raise":
                self.end("policy_fault")
                return
            until_ms = due.throttle_until_ms
            if said[0] == "throttle":
                until_ms = max(until_ms, self.now_ms + said[1])
            said_ms = due.asked.replied_ms
            if until_ms > self.now_ms:
                said_ms = max(said_ms, until_ms - self.now_ms)
                self.throttle(max(until_ms, self.now_ms + said_ms))
            self.to_client.append(due.asked.seen(said_ms))
            self.complete(due.asked, "replied")
        self.due.popleft()
        self.send_local_replies()
        self.maybe_end()

    def heard(self, asked: Asked) -> tuple:
        listens = self.script.policy and self.script.hears
        return asked.hears if listens else ("forward",)

    def send_local_replies(self) -> None:
        """Send the local replies whose turn has come."""
        place = 0
        while place < len(self.due):
            each = self.due[place]
            if each.made:
                del self.due[place]
                self.to_client.append(each.made)
                self.complete(each.asked, "answered")
            elif each.swallowed:
                place += 1
            else:
                break

    def expire(self) -> None:
        """The broker was silent for too long: answer its oldest requests in its place, as far as allowed."""
        self.answer_oldest({"produce", "bulk", "many", "fetch"}, "expired")
        self.maybe_end()

    def answer_oldest(self, kinds: set[str], outcome: str) -> None:
        """Answer the oldest requests here, as long as they are of these kinds."""
        for each in list(self.due):
            if self.ended:
                return
            if each.swallowed:
                continue
            if each.made:
                self.send_local_replies()
                continue
            asked = each.asked
            if asked.kind not in kinds or asked is self.passing:
                return
            each.swallowed = True
            said = self.heard(asked)
            if said[0] == "raise":
                self.complete(asked, "disconnected")
                self.end("policy_fault")
                return
            until_ms = each.throttle_until_ms
            if said[0] == "throttle":
                until_ms = max(until_ms, self.now_ms + said[1])
            left_ms = max(until_ms - self.now_ms, 0)
            self.throttle(until_ms)
            self.to_client.append(timed_out(asked, left_ms))
            self.complete(asked, outcome)

    # -- the end, and what is counted ------------------------------------------------------------

    def quiet(self, asked: Asked, ms: int) -> None:
        until_ms = self.now_ms + ms
        if not asked.silent:
            self.throttle_until_ms = until_ms
        self.throttle(until_ms)

    def throttle(self, until_ms: int) -> None:
        if until_ms <= self.now_ms or until_ms <= self.throttled_until_ms:
            return
        self.throttled_until_ms = until_ms
        if self.passing is not None or self.judged is not None:
            self.mute_after_request = True
        else:
            self.muted = True

    def complete(self, asked: Asked, outcome: str) -> None:
        if self.script.policy:
            self.completed.setdefault(asked.number, []).append(outcome)

    def fault(self, reason: str) -> None:
        """A request is at fault: earlier requests are answered."""
        self.passing = None
        self.end_after_replies(reason)
        if not self.ended:
            self.give_up_ms = self.now_ms + LAST_REPLIES_MS

    def end_after_replies(self, reason: str) -> None:
        if not self.ending:
            self.ending = True
            self.reason = reason
        self.maybe_end()

    def maybe_end(self) -> None:
        waits = self.passing is not None or self.held is not None or self.judged is not None
        if not self.ending or waits:
            return
        if self.draining:
            self.answer_oldest({"fetch"}, "answered")
        if not self.due or self.due[-1].swallowed:
            self.ended = True

    def end(self, reason: str) -> None:
        """End now, and tell the policy of every waiting request."""
        if self.ended and not self.due:
            return
        if not self.ending:
            self.reason = reason
        self.ending = self.ended = True
        if self.held is not None:
            self.complete(self.held[0], "disconnected")
            self.held = None
        for each in self.due:
            if not each.swallowed:
                self.complete(each.asked, "disconnected")
        self.due.clear()


def timed_out(asked: Asked, left_ms: int) -> bytes:
    """Return the reply in the place of a silent broker."""
    if asked.kind == "fetch":
        return f.reply(asked.number, struct.pack(">ii", max(left_ms, 1), 0))
    if asked.kind == "many":
        return produce_many_timed_out(asked.number, left_ms)
    reply = f.produce_reply(asked.number)
    return reply[:-22] + struct.pack(">hqqi", 7, -1, -1, left_ms)
