"""A broker in a process of its own that answers by grammar and sends a share of wrong replies.

    python -m tests.fuzz.lying_broker SEED LIES

LIES is the share of wrong replies among those to clients with an odd number: cut in the middle, sent twice, out of
order, for another request, of a wrong size, of another API, mutated, or never sent. Clients with an even number get
grammatical replies, with this broker's true address wherever a broker is named, and a Heartbeat v0 an honest one. Which
client asks is in the correlation id (`CLIENT_SHIFT`).
"""

import random
import struct
import sys
from typing import Final

from tests.fuzz.grammar import ADDRESS, LYING_HOST, Host
from tests.fuzz.mutation import mutated
from tests.fuzz.peers import is_silent
from tests.fuzz.stock import Stock
from tests.support.faults.stub_broker import CLOSE, StubBroker
from tests.support.messages import frames as f
from wire.apis import BY_KEY_AND_VERSION

CLIENT_SHIFT: Final = 8
"""A hostile client numbers its requests from `client << CLIENT_SHIFT` on, and sends no more than fit."""
FIRST_CLIENT: Final = 1 << 12
"""Smaller correlation ids are Sluice's own."""
_SILENT_EVERY: Final = 40


class LyingBroker:
    """The answers of a StubBroker."""

    def __init__(self, seed: int, lies: float) -> None:
        self.stub = StubBroker(self.answer)
        self.stock = Stock()
        self._host = Host(ADDRESS.encode(), self.stub.port)
        self._chance = random.Random(seed)
        self._lies = lies
        self.stock.fill(self._host, LYING_HOST)
        self._kept: dict[int, bytes] = {}

    def answer(self, request: bytes) -> bytes | None:
        """Return the bytes to send for this request."""
        (word, correlation_id) = struct.unpack_from(">ii", request, 4)
        api = BY_KEY_AND_VERSION.get(word)
        client = correlation_id >> CLIENT_SHIFT
        assert api is not None, "a request of a version that was not offered"
        if word == f.HEARTBEAT << 16 or (client < FIRST_CLIENT and api.key == f.METADATA):
            return self.stub.usual(request)
        if is_silent(request, api):
            return None
        chance = self._chance
        if not (client % 2 and self._lies):
            return self.stock.reply(api, correlation_id, chance, host=self._host)
        frame = self.stock.reply(api, correlation_id, chance, host=LYING_HOST)
        if chance.random() >= self._lies:
            return self._kept.pop(client, b"") + frame
        turn = chance.randrange(10)
        if turn == 0:
            return frame * 2
        if turn == 1:
            return frame[: 1 + chance.randrange(len(frame) - 1)]
        if turn == 2:
            return frame[:4] + struct.pack(">i", correlation_id ^ 1) + frame[8:]
        if turn == 3:
            self._kept = {client: frame}  # sent after the next reply
            return None
        if turn == 4:
            return self.stock.reply(
                self.stock.pick(chance), correlation_id, chance, host=LYING_HOST
            )
        if turn == 5:
            return CLOSE
        if turn == 6 and chance.randrange(_SILENT_EVERY) == 0:
            return None
        if turn == 7:
            size = chance.choice((-1, 0, 3, 2_147_483_647, len(frame) + 50, len(frame) - 5))
            return struct.pack(">i", size) + frame[4:]
        if turn == 8:
            return frame + chance.randbytes(chance.choice((1, 8, 300)))
        return mutated(frame, chance)


def main() -> None:
    """Serve until standard input is closed."""
    broker = LyingBroker(int(sys.argv[1]), float(sys.argv[2]))
    with broker.stub:
        print(broker.stub.server, flush=True)  # noqa: T201 - this is how it is found
        sys.stdin.read()


if __name__ == "__main__":
    main()
