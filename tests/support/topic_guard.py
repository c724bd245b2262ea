"""A policy for tests, as a stranger would write it: no client uses a denied topic, by its name or its id."""

import msgspec

from policies.api import FORWARD, Forward, Host, Need, Peer, Policy, Reject, Request
from wire.apis import ApiKey
from wire.errors import ErrorCode


class GuardConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The topics that no client may use."""

    denied: tuple[str, ...]


class TopicGuard(Policy):
    """Refuses each Produce to a denied topic, and each Fetch of one."""

    Config = GuardConfig
    apis = frozenset({ApiKey.PRODUCE, ApiKey.FETCH})
    needs = Need.TOPICS

    def __init__(self, config: object, host: Host) -> None:
        super().__init__(config, host)
        assert isinstance(config, GuardConfig)
        self._denied = frozenset(config.denied)

    def on_request(self, request: Request, peer: Peer, now_ms: int) -> Forward | Reject:
        """Judge by the topics that the request names."""
        for topic in request.topics:
            if topic.name is None:
                return Reject(ErrorCode.UNKNOWN_TOPIC_ID)
            if topic.name in self._denied:
                return Reject(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        return FORWARD
