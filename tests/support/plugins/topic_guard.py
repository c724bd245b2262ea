"""A policy for tests, as a stranger would write it: no client uses a denied topic, by its name or its id."""

import msgspec

from policies.api import FORWARD, Forward, Host, Need, Peer, Policy, Request
from policies.denial import Deny
from wire.apis import ApiKey
from wire.errors import ErrorCode


class GuardConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The topics that no client may use."""

    denied: tuple[str, ...]


class TopicGuard(Policy):
    """Denies each denied topic in a Produce and a Fetch."""

    Config = GuardConfig
    apis = frozenset({ApiKey.PRODUCE, ApiKey.FETCH})
    needs = Need.TOPICS

    def __init__(self, config: object, host: Host) -> None:
        super().__init__(config, host)
        assert isinstance(config, GuardConfig)
        self._denied = frozenset(config.denied)

    def on_request(self, request: Request, peer: Peer, now_ms: int) -> Forward | Deny:
        """Judge by the topics that the request names."""
        denied = {
            topic.key: ErrorCode.UNKNOWN_TOPIC_ID
            if topic.name is None
            else ErrorCode.TOPIC_AUTHORIZATION_FAILED
            for topic in request.topics
            if topic.name is None or topic.name in self._denied
        }
        return Deny(denied) if denied else FORWARD
