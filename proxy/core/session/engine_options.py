"""The settings of an engine that hold from start to end. Limits that may change later are set by `Engine`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from proxy.core.memory.pool_limits import PoolLimits
from proxy.core.session.grace_times import GraceTimes

if TYPE_CHECKING:
    from collections.abc import Collection

    from proxy.core.stats.capture import Capture
    from proxy.core.stats.topic_usage import TopicUsage


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """The options of an engine. Times are in milliseconds."""

    request_max_bytes: int = 104857600
    request_timeout_ms: int = 0
    """How long a broker may owe a reply; 0 = no limit."""
    pass_unknown: Collection[int] = ()
    """API keys outside the table that pass unchanged."""
    fixed_user: str = ""
    """The user of all clients; "": each client's own."""
    oauthbearer_claim: str = ""
    """The claim of a token that names its user, where the brokers authenticate clients; "": none does."""
    graces: GraceTimes = field(default_factory=GraceTimes)
    pool_limits: PoolLimits = field(default_factory=PoolLimits)
    keeps_traces: bool = False
    sample_every: int = 0
    """One ordinary request in so many is traced; 0 = none."""
    slow_ms: int = 0
    """Requests that take as long are traced; 0 = none is slow."""
    meters_by_key: bool = False
    """Whether usage is counted for each user and API, not for each API alone."""
    capture: Capture | None = None
    topic_usage: TopicUsage | None = None
