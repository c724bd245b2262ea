"""`batch_limit`: no Produce request above a size, except for some client ids."""

import msgspec

from sluice import FORWARD, ApiKey, ErrorCode, Forward, Peer, Policy, Reject, Request


class BatchLimitConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The settings."""

    max_bytes: int
    exempt_client_ids: tuple[str, ...] = ()


class BatchLimit(Policy):
    """Refuses Produce requests of more than `max_bytes`, before their body is read."""

    Config = BatchLimitConfig
    config: BatchLimitConfig
    apis = frozenset({ApiKey.PRODUCE})

    def on_request(self, request: Request, peer: Peer, now_ms: int) -> Forward | Reject:
        """Judge by the header: the size is known before the body arrives."""
        config = self.config
        if request.size_bytes <= config.max_bytes or peer.client_id in config.exempt_client_ids:
            return FORWARD
        words = f"{request.size_bytes} bytes, at most {config.max_bytes} are allowed"
        return Reject(ErrorCode.MESSAGE_TOO_LARGE, message=words)
