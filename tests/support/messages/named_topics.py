"""Requests that name topics, and a policy that remembers what they name."""

from uuid import UUID

from policies.api import FORWARD, Need
from tests.support.core.policies import Recorder
from tests.support.messages import frames as f
from tests.support.messages.kafka_messages import api_of
from wire import codec
from wire.schema import make_message

ID = UUID(int=5)


class Watcher(Recorder):
    """Remembers what each request names, while it is judged and when it has ended."""

    def __init__(self, decide=lambda _: FORWARD, **options):
        super().__init__(self.look, needs=Need.TOPICS, **options)
        self.decide = decide
        self.seen = []
        self.later = []

    def look(self, request):
        self.seen.append((request.topics, request.groups, request.topics_complete))
        return self.decide(request)

    def on_complete(self, request, outcome, peer, result, now_ms):
        super().on_complete(request, outcome, peer, result, now_ms)
        self.later.append((request.body, request.names))


def asked(key, version, **values):
    """A request frame with these fields; other fields hold zero values."""
    api = api_of(key, version)
    body = codec.encode(make_message(codec.request_shape(api), 0, values))
    return f.request(key, version, 1, body, tagged=api.flexible)


def item(key, version, array, **values):
    """One item of an array of that request."""
    field = codec.request_shape(api_of(key, version)).field(array)
    return make_message(field.shape, 0, values)


def fetch(session_id, epoch, version=13):
    """A Fetch of one topic by its id."""
    partition = make_message(
        codec.request_shape(api_of(1, version)).field("topics").shape.field("partitions").shape,
        0,
        {"partition": 3},
    )
    topic = item(1, version, "topics", topic_id=ID, partitions=(partition,))
    return asked(1, version, session_id=session_id, session_epoch=epoch, topics=(topic,))
