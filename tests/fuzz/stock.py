"""Ready-made frames by grammar, so that writing frames does not slow down the fuzzer."""

import random
import struct
from typing import Final

from tests.fuzz import grammar
from tests.fuzz.grammar import TRUE_HOST, Host
from wire.apis import Api

_KINDS: Final = 4
_USUAL: Final = ((0, 0.25), (1, 0.15), (3, 0.12), (12, 0.1), (10, 0.06), (48, 0.03), (49, 0.03))
"""APIs that come more often than the others: what clients do all day, what carries addresses, what is answered here."""


class Stock:
    """Some requests and replies of every API and version, the same in each run."""

    def __init__(self) -> None:
        self._requests: dict[int, list[bytes]] = {}
        self._replies: dict[tuple[int, Host], list[bytes]] = {}
        self._by_key: dict[int, list[Api]] = {}
        for api in grammar.apis():
            self._by_key.setdefault(api.key, []).append(api)

    def fill(self, *hosts: Host) -> None:
        """Make all frames now, with replies for these hosts, because the first of an API takes long."""
        chance = random.Random()
        for api in grammar.apis():
            self.request(api, 0, chance)
            for host in hosts:
                self.reply(api, 0, chance, host=host)

    def pick(self, chance: random.Random) -> Api:
        """Return any API in any version; common ones more often."""
        turn = chance.random()
        for key, share in _USUAL:
            turn -= share
            if turn < 0:
                return chance.choice(self._by_key[key])
        return chance.choice(grammar.apis())

    def request(self, api: Api, correlation_id: int, chance: random.Random) -> bytes:
        """Return a request of this API."""
        word = api.key << 16 | api.version
        if word not in self._requests:
            made = random.Random(word)
            self._requests[word] = [grammar.request(api, 0, made) for _ in range(_KINDS)]
        frame = chance.choice(self._requests[word])
        return frame[:8] + struct.pack(">i", correlation_id) + frame[12:]

    def reply(
        self, api: Api, correlation_id: int, chance: random.Random, *, host: Host = TRUE_HOST
    ) -> bytes:
        """Return a reply of this API whose brokers are at `host`."""
        kind = (api.key << 16 | api.version, host)
        if kind not in self._replies:
            made = random.Random(kind[0])
            self._replies[kind] = [grammar.reply(api, 0, made, host) for _ in range(_KINDS)]
        frame = chance.choice(self._replies[kind])
        return frame[:4] + struct.pack(">i", correlation_id) + frame[8:]
