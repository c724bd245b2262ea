"""The engines of the fuzzer: every kind of chain and setting, small pools, a policy with random verdicts."""

from collections.abc import Callable, Hashable
from typing import Final

from msgspec import convert, structs

from policies.admission import Admission, AdmissionConfig
from policies.api import Need, Policy
from policies.fetch_floor import FetchFloor, FetchFloorConfig, FloorRule
from policies.limits import Limits, LimitsConfig
from policies.quota.config import QuotaConfig
from policies.quota.policy import Quota
from proxy.core.auth.passwords import PasswordCheck, Passwords
from proxy.core.engine import Engine
from proxy.core.memory.pool_limits import PoolLimits
from proxy.core.memory.slow_clients import ReadLimits
from proxy.core.stats.topic_usage import TopicUsage
from tests.fuzz.whims import HearingWhim, Whim, WildWhim
from tests.support.core.sessions import make_engine
from tests.support.shell.sasl_service import sasl_server

_TIMEOUT_MS: Final = 30_000
_SMALL: Final = PoolLimits(
    request_bytes=20_000, response_bytes=20_000, read_limits=ReadLimits(5_000, 100)
)
_BY_ENTITY: Final = convert(
    {
        "quotas": [
            {
                "client_id": "noisy",
                "request_rate": 20,
                "producer_byte_rate": 5000,
                "consumer_byte_rate": 5000,
            },
            {"client_id": "fuzz", "request_rate": 500},
            {"user": "<default>", "request_rate": 100_000},
        ],
        "admins": ["ANONYMOUS"],
    },
    QuotaConfig,
)
_BY_CHANNEL: Final = structs.replace(_BY_ENTITY, enforcement="channel")
_CHAIN: Final = (
    (
        Limits,
        LimitsConfig(
            forbidden_apis=("DeleteTopics", "CreateTopics", "ElectLeaders"),
            request_max_bytes=1500,
            required_acks="1",
        ),
    ),
    (
        FetchFloor,
        FetchFloorConfig(consumers=(FloorRule(client_id="fuzz", min_bytes=9, max_wait_ms=50),)),
    ),
    (Admission, AdmissionConfig(max_in_flight_requests_per_node=3, max_wait_ms=100)),
)
KINDS: Final = (
    *("bare", "watched", "entity quota", "channel quota", "chain"),
    *("whims of bodies", "whims of topics", "whims of heads", "whims of replies"),
    *("wild whims", "own sasl"),
)


class Services:
    """The application's services for policies, for an engine that comes later."""

    name = "fuzz"
    observes = False

    def __init__(self) -> None:
        self.engine: Engine | None = None

    def wake(self, key: Hashable) -> int:
        return 0 if self.engine is None else self.engine.wake(key)

    def call_at(self, at_ms: int, call: Callable[[int], None]) -> None:
        if self.engine is not None:
            self.engine.timers.arm(at_ms, call)

    def reconsider(self) -> None:
        if self.engine is not None:
            self.engine.reconsider()

    def load(self, path: str) -> bytes | None:
        return None

    def read(self, path: str, max_bytes: int) -> bytes:
        raise FileNotFoundError(path)

    def save(self, path: str, data: bytes) -> None:
        """Discard the data."""


def configured(*policies: tuple[type[Policy], object], **options: object) -> Engine:
    """Return an engine with these policies and settings, passed as the application passes them."""
    services = Services()
    engine = make_engine([kind(config, services) for kind, config in policies], **options)
    services.engine = engine
    return engine


def wild(seed: int, **options: object) -> Engine:
    """Return an engine with a policy or two that raise and call back in any hook."""
    services = Services()
    policies = [WildWhim(Need(seed % 4), seed, services), WildWhim(Need.HEADER, seed + 1, services)]
    if seed % 3 == 0:
        options["pool_limits"] = _SMALL
    engine = make_engine(policies[: 1 + seed % 2], request_timeout_ms=_TIMEOUT_MS, **options)
    services.engine = engine
    return engine


def gated(seed: int) -> Engine:
    """Return the same, whose clients authenticate to Sluice: passwords are verified a millisecond later."""
    engine = wild(seed, keeps_traces=True)

    def submit(check: PasswordCheck, address: str, on_done: Callable[[bool | None], None]) -> bool:
        if seed % 7 == 0:
            return False
        engine.timers.arm(engine.now_ms + 1, lambda _: on_done(check.run() if seed % 5 else None))
        return True

    server, _ = sasl_server(max_reauth_ms=5_000)
    server.passwords = Passwords(b"a key", submit)
    engine.authenticate_clients(server)
    return engine


def engine_of(kind: str, seed: int) -> Engine:
    """Return the engine of an episode, of one of KINDS."""
    if kind == "bare":
        return make_engine(request_timeout_ms=_TIMEOUT_MS)
    if kind == "watched":
        return make_engine(
            keeps_traces=True,
            topic_usage=TopicUsage(),
            sample_every=3,
            slow_ms=1,
            meters_by_key=True,
            request_timeout_ms=_TIMEOUT_MS,
        )
    if kind == "entity quota":
        return configured((Quota, _BY_ENTITY), pool_limits=_SMALL, request_timeout_ms=_TIMEOUT_MS)
    if kind == "channel quota":
        return configured(
            (Quota, _BY_CHANNEL),
            keeps_traces=True,
            topic_usage=TopicUsage(),
            request_timeout_ms=_TIMEOUT_MS,
        )
    if kind == "chain":
        return configured(
            *_CHAIN, (Quota, _BY_ENTITY), pool_limits=_SMALL, request_timeout_ms=_TIMEOUT_MS
        )
    if kind == "whims of bodies":
        return make_engine(
            [Whim(Need.BODY, seed)], pool_limits=_SMALL, request_timeout_ms=_TIMEOUT_MS
        )
    if kind == "whims of topics":
        return make_engine(
            [Whim(Need.TOPICS, seed)], pool_limits=_SMALL, request_timeout_ms=_TIMEOUT_MS
        )
    if kind == "whims of replies":
        policies = [HearingWhim(Need.BODY, seed), HearingWhim(Need.HEADER, seed + 1)]
        return make_engine(
            policies, pool_limits=_SMALL, keeps_traces=True, request_timeout_ms=_TIMEOUT_MS
        )
    if kind == "wild whims":
        return wild(seed, on_error="forward" if seed % 4 == 0 else "close")
    if kind == "own sasl":
        return gated(seed)
    assert kind == "whims of heads", kind
    return make_engine(
        [Whim(Need.HEAD, seed + 1), Whim(Need.HEADER, seed + 2)],
        topic_usage=TopicUsage(),
        keeps_traces=True,
        pool_limits=PoolLimits(request_bytes=20_000, requests=3, max_share=0.5),
        request_timeout_ms=_TIMEOUT_MS,
    )
