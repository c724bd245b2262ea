"""A fuzzer of `Session` in this process: both peers, time and every kind of end, thousands of frames a second.

An episode is a few sessions that share one engine; its seed decides all of its events. These rules must hold:

- A session ends for a reason that its peers gave; never INTERNAL, and by a policy's fault only if a policy raised.
- The broker receives only requests of offered APIs.
- The client receives no host but Sluice's.
- The session of a client that has half-closed ends, also if the broker never answers.
- When all sessions have ended the pools are empty, no request is held, no client waits and no timer is left.
"""

import random
import struct
from typing import Final

from proxy.core.engine import Engine
from proxy.core.errors import CloseReason
from tests.fuzz.conversations import Conversation
from tests.fuzz.engines import KINDS, engine_of
from tests.fuzz.grammar import LYING_HOST, TRUE_HOST
from tests.fuzz.logins import login
from tests.fuzz.mutation import mutated
from tests.fuzz.peers import Answered, Asked
from tests.fuzz.whims import STOCK, Whim, WildWhim
from tests.support.core.sessions import Watcher, Wire

CHUNKS: Final = (1, 2, 3, 7, 50, 300, 4096, 64 << 10, 256 << 10)
STEPS_MAX: Final = 30
SETTLE_MS: Final = 150_000
ENDS: Final = frozenset(CloseReason) - {CloseReason.INTERNAL, CloseReason.POLICY_FAULT}


class Pair:
    """One session and both its peers."""

    def __init__(self, engine: Engine, chance: random.Random) -> None:
        self.wire = Wire(engine, node_id=chance.choice((None, 1)))
        self.asked, self.answered = Asked(), Answered()
        self.lying = False
        self._read_broker = self._read_client = 0

    def look(self) -> None:
        """Let both peers read the bytes that have arrived."""
        wire = self.wire
        self.asked.read(wire.to_broker[self._read_broker :])
        self._read_broker = len(wire.to_broker)
        self.answered.read(wire.to_client[self._read_client :])
        self._read_client = len(wire.to_client)


class SessionFuzz:
    """Plays episodes, each on an engine of its own. `frames` counts frames
    of both directions; `reasons` are the reasons of ended sessions.
    """

    def __init__(self) -> None:
        self.frames = 0
        self.reasons: set[CloseReason] = set()
        self._ids = 0
        self._chance = random.Random()
        self._wild = self._lies = self._logins = 0.0

    def play(self, seed: int) -> None:
        """Play one episode."""
        chance = self._chance = random.Random(seed)
        self._ids = 0
        engine = engine_of(chance.choice(KINDS), seed)
        timers = engine.timers.size
        self._wild = chance.choice((0, 0.02, 0.2, 0.7))
        self._lies = chance.choice((0, 0, 0.05, 0.4))
        self._logins = 0.02 if engine.sasl_server is None else 0.5
        pairs = [Pair(engine, chance) for _ in range(chance.choice((1, 1, 2, 4)))]
        for _ in range(chance.randrange(3, STEPS_MAX)):
            self._step(chance.choice(pairs), engine)
        for pair in pairs:
            self._end(pair)
        self._settle(engine, timers)

    def replay(self, kind: str, conversation: Conversation, chunk: int) -> None:
        """Play one conversation of the corpus in reads of `chunk` bytes."""
        engine = engine_of(kind, chunk)
        timers = engine.timers.size
        pair = Pair(engine, random.Random(chunk))
        for by_client, data in conversation:
            if by_client:
                pair.answered.sent_stream(data)
                pair.wire.client(data, chunk)
            else:
                pair.wire.broker(data, chunk)
            pair.look()
        self._chance = random.Random(chunk)
        self._end(pair)
        self._settle(engine, timers)

    def _step(self, pair: Pair, engine: Engine) -> None:
        chance, wire = self._chance, pair.wire
        turn = chance.random()
        if turn < 0.5:
            if not wire.session.ended and not wire.session.ending:
                self._client(pair)
        elif turn < 0.9:
            self._broker(pair)
        elif turn < 0.97:
            wire.advance(chance.choice((0, 1, 30, 500, 2_000, 31_000)))
        elif turn < 0.98:
            wire.hang_up()
        elif turn < 0.985:
            engine.wake("a")
            wire.wake("b")
        elif turn < 0.99:
            engine.forget_plans()
        elif turn < 0.995:
            wire.session.client_gone(wire.now_ms)
            wire.settle()
        elif turn < 0.997:
            wire.drain()
        pair.look()

    def _client(self, pair: Pair) -> None:
        chance = self._chance
        frames = []
        if chance.random() < self._logins:
            frames = login(chance, self._ids + 1)
            self._ids += len(frames)
        for _ in range(0 if frames else chance.choice((1, 1, 2, 5, 20, 60))):
            self._ids += 1
            frame = STOCK.request(STOCK.pick(chance), self._ids, chance)
            if chance.random() < self._wild:
                frame = mutated(frame, chance)
            frames.append(frame)
        for frame in frames:
            pair.answered.sent(frame)
        self.frames += len(frames)
        data = b"".join(frames)
        if chance.random() < 0.1:
            data = data[: chance.randrange(len(data) + 1)]
        pair.wire.client(data, self._chunk(len(data)))

    def _broker(self, pair: Pair) -> None:
        chance, due = self._chance, pair.asked.due
        replies = []
        for _ in range(min(len(due), chance.choice((1, 2, 10, 100)))):
            if chance.random() < self._lies:
                pair.lying = True
                replies.append(self._lie(pair))
                continue
            api, correlation_id = due.popleft()
            replies.append(
                STOCK.reply(
                    api, correlation_id, chance, host=LYING_HOST if pair.lying else TRUE_HOST
                )
            )
        if not due and chance.random() < self._lies:
            pair.lying = True
            replies.append(STOCK.reply(STOCK.pick(chance), 1, chance, host=LYING_HOST))
        if replies:
            self.frames += len(replies)
            data = b"".join(replies)
            pair.wire.broker(data, self._chunk(len(data)))

    def _lie(self, pair: Pair) -> bytes:
        """Return a wrong reply; it may be empty."""
        chance, due = self._chance, pair.asked.due
        api, correlation_id = due[0]
        frame = STOCK.reply(api, correlation_id, chance, host=LYING_HOST)
        turn = chance.randrange(8)
        if turn == 0:
            return frame  # and again when its turn comes
        if turn == 1 and len(due) > 1:
            return STOCK.reply(due[1].api, due[1].correlation_id, chance, host=LYING_HOST)
        if turn == 2:
            return frame[: chance.randrange(len(frame))]
        if turn == 3:
            return frame[:4] + struct.pack(">i", correlation_id ^ 1) + frame[8:]
        if turn == 4:
            other = STOCK.pick(chance)
            frame = STOCK.reply(other, correlation_id, chance, host=LYING_HOST)
        else:
            frame = mutated(frame, chance)
        due.popleft()
        return frame

    def _chunk(self, size: int) -> int:
        """Return the size of one read; only large frames get large ones."""
        chunk = self._chance.choice(CHUNKS)
        return max(chunk, size // 200, 1)

    def _end(self, pair: Pair) -> None:
        wire, chance = pair.wire, self._chance
        session, now_ms = wire.session, wire.now_ms
        if not session.ended:
            turn = chance.randrange(5)
            if turn == 0:
                session.client_gone(now_ms)
            elif turn == 4 and not session.client.muted:  # the end of a muted client is not read
                session.client_gone(now_ms)
                wire.settle()
                for _ in range(3):  # each later exchange has a deadline of its own
                    wire.advance(SETTLE_MS)
                assert session.ended, f"{len(session.queue)} in flight for ever"
            elif turn == 1:
                session.client_lost(now_ms)
            elif turn == 2:
                session.broker_gone(CloseReason.BROKER_CLOSED, now_ms)
            else:
                session.broker_gone(CloseReason.BROKER_RESET, now_ms)
        wire.settle()
        pair.look()
        wire.release()

    def _settle(self, engine: Engine, timers: int) -> None:
        """Check that only the peers ended the sessions, nothing
        is held, and minutes later no policy's timer is left.
        """
        watcher = engine.observer
        assert isinstance(watcher, Watcher)
        if watcher.internal:
            raise watcher.internal[0]
        reasons = {reason for reason, _ in watcher.closed}
        wild = [each.policy for each in engine.chain.entries if isinstance(each.policy, WildWhim)]
        assert reasons <= (ENDS | {CloseReason.POLICY_FAULT} if wild else ENDS), watcher.closed
        assert not any(policy.strange for policy in wild)
        self.reasons |= reasons
        assert not engine.sessions
        assert not engine.request_pool.used_bytes
        assert not engine.reply_pool.used_bytes
        assert not engine.holds.num_delayed
        assert not len(engine.reservations)
        assert not engine.reservations.requests
        for entry in engine.chain.entries:
            if isinstance(entry.policy, Whim):
                assert not entry.policy.open
        engine.advance(engine.now_ms + SETTLE_MS)
        assert engine.timers.size <= timers
