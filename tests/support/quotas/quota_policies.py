"""The quota policy on a bench, and the clients that ask it."""

from policies.api import Peer
from policies.quota.policy import Quota
from policies.testing import BenchRequest, PolicyBench
from wire.fetch import FetchHead

EPOCH_MS = 1_700_000_000_000


def bench(*quotas: dict[str, object], **settings: object) -> PolicyBench:
    made = PolicyBench(Quota, {"quotas": list(quotas), **settings}, EPOCH_MS)
    made.request("ApiVersions")  # exchange 1 is another matter
    return made


def peer(session_id: int = 1, client_id: str = "c", user: str = "alice") -> Peer:
    return Peer(session_id, "127.0.0.1", 50_000 + session_id, client_id=client_id, user=user)


def burst(made: PolicyBench, size: int, who: Peer | None = None) -> list[object]:
    """Return the verdicts on so many requests of one client."""
    return [made.ask(made.request("Metadata"), who or peer()) for _ in range(size)]


def asked_by_others(made: PolicyBench, count: int) -> list[BenchRequest]:
    """Ask once on each of so many sessions, from the second on; return the requests."""
    asked = [made.request("Metadata") for _ in range(count)]
    for session_id, each in enumerate(asked, 2):
        made.ask(each, peer(session_id))
    return asked


def released(made: PolicyBench) -> list[tuple[int, int, object]]:
    """Return the time since the start, the exchange and the verdict of each request that was held."""
    return [
        (each.now_ms - EPOCH_MS, each.request.exchange_id, each.verdict) for each in made.released
    ]


def fetch(made: PolicyBench, max_bytes: int = 50_000_000) -> BenchRequest:
    asked = made.request("Fetch", 12)
    asked.head = FetchHead(max_wait_ms=500, min_bytes=1, max_bytes=max_bytes)
    return asked
