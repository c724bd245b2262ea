"""A policy for tests, as a stranger would write it: a denied topic is not written to, by its name or by its id."""

import msgspec

from policies.api import FORWARD, Forward, Host, Need, Peer, Policy, Reject, Request
from wire.apis import ApiKey
from wire.errors import ErrorCode
from wire.produce import ProduceWalker


class GuardConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The topics that no client may write to."""

    denied: tuple[str, ...]


class TopicGuard(Policy):
    """Refuses each Produce to a denied topic."""

    Config = GuardConfig
    apis = frozenset({ApiKey.PRODUCE})
    needs = Need.BODY

    def __init__(self, config: object, host: Host) -> None:
        super().__init__(config, host)
        assert isinstance(config, GuardConfig)
        self._denied = frozenset(config.denied)

    def on_request(self, request: Request, peer: Peer, now_ms: int) -> Forward | Reject:
        """Judge the topics of the whole body."""
        head = request.head
        assert isinstance(head, ProduceWalker)
        for topic, _ in head.topics:
            name = topic if isinstance(topic, str) else self.host.topic_name(topic)
            if name is None:
                return Reject(ErrorCode.UNKNOWN_TOPIC_ID)
            if name in self._denied:
                return Reject(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        return FORWARD
