"""A bench with one `admission` policy, where each request has a connection of its own."""

from policies.admission import Admission
from policies.api import FORWARD, Hold, Outcome, Peer, Reject
from policies.testing import PolicyBench

IMPORTANCE = [
    {"user": "vip", "client_id": "slow", "level": 1},
    {"user": "vip", "level": 10},
    {"client_id": "batch", "level": -5},
    {"api": "Metadata", "level": 3},
]


class Room:
    """A bench with one admission policy; each request has a connection of its own."""

    def __init__(self, in_flight=1, **config):
        config = {"max_in_flight_requests_per_node": in_flight, "importance": IMPORTANCE} | config
        self.bench = PolicyBench(Admission, config)
        self.policy = self.bench.policy
        self.peers = {}
        self.asked = []  # each lives until it completes, as in the core: the policy goes by identity

    def ask(self, api="ListOffsets", *, user="ANONYMOUS", client_id="c", head=None, **request):
        asked = self.bench.request(api, **request)
        asked.head = head
        self.asked.append(asked)
        self.peers[asked.exchange_id] = Peer(
            asked.exchange_id, "127.0.0.1", 1, asked.node_id, client_id, user
        )
        return asked, self.bench.ask(asked, self.peers[asked.exchange_id])

    def passes(self, *args, **request):
        asked, verdict = self.ask(*args, **request)
        assert verdict is FORWARD
        return asked

    def waits(self, *args, **request):
        asked, verdict = self.ask(*args, **request)
        assert isinstance(verdict, Hold)
        return asked

    def leave(self, request):
        self.bench.disconnect(self.peers[request.exchange_id])

    def released(self):
        """Return the requests forwarded or refused since the last call, in order; the refused ones complete."""
        released = [(each.request, each.verdict) for each in self.bench.released]
        self.bench.released.clear()
        for request, verdict in released:
            if isinstance(verdict, Reject):
                self.bench.complete(request, Outcome.ANSWERED)
        return released
