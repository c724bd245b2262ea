"""`topic_guard`: no client may produce to or fetch from topics with a prefix."""

import msgspec

from sluice import FORWARD, ApiKey, ErrorCode, Forward, Need, Peer, Policy, Reject, Request


class TopicGuardConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The settings."""

    denied_prefix: str


class TopicGuard(Policy):
    """Refuses Produce and Fetch of topics whose name begins with `denied_prefix`."""

    Config = TopicGuardConfig
    config: TopicGuardConfig
    apis = frozenset({ApiKey.PRODUCE, ApiKey.FETCH})
    needs = Need.TOPICS  # names and ids, resolved

    def on_request(self, request: Request, peer: Peer, now_ms: int) -> Forward | Reject:
        """Judge each topic; an id without a name is refused until the client has asked for it."""
        for topic in request.topics:
            if topic.name is None:
                return Reject(ErrorCode.UNKNOWN_TOPIC_ID)
            if topic.name.startswith(self.config.denied_prefix):
                return Reject(ErrorCode.TOPIC_AUTHORIZATION_FAILED, message=topic.name)
        return FORWARD
