"""`maintenance_hold`: while `paused` is true, writes wait; a reload with `paused: false` releases them."""

import msgspec

from sluice import FORWARD, ApiKey, ErrorCode, Forward, Hold, Peer, Policy, Reject, Request


class MaintenanceHoldConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The settings."""

    paused: bool = False
    max_wait_ms: int = 10_000


class MaintenanceHold(Policy):
    """Holds Produce requests while `paused`; at the deadline the client gets an error that it retries."""

    Config = MaintenanceHoldConfig
    config: MaintenanceHoldConfig
    apis = frozenset({ApiKey.PRODUCE})

    def adopt(self, previous: Policy) -> None:
        """Have the requests that the policy before holds judged by this one."""
        self.host.wake("maintenance")

    def on_request(self, request: Request, peer: Peer, now_ms: int) -> Forward | Hold:
        """Wait for the key that `adopt` wakes."""
        late = Reject(ErrorCode.REQUEST_TIMED_OUT)
        return Hold(self.config.max_wait_ms, "maintenance", late) if self.config.paused else FORWARD
