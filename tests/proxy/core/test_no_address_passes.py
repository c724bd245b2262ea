"""No real broker address reaches a client: every API that carries one, any chunking, with and without hooks."""

from dataclasses import replace

from policies.api import FORWARD, Need
from tests.support.core.policies import Recorder, Silent
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f
from tests.support.messages.every_case import for_each
from tests.support.messages.kafka_messages import changed, messages_of, structs
from tests.support.messages.throttled import KINDS
from tests.support.messages.waiting import asked as produce
from wire import codec
from wire.apis import BY_KEY_AND_VERSION, ApiKey

REAL = "real-broker.internal"
CARRIERS = [
    api for api in BY_KEY_AND_VERSION.values() if api.carries_addresses and codec.is_known(api)
]
HOOKS = {
    "no policy": list,
    "told of the end": lambda: [Silent()],
    "asked and told": lambda: [Recorder(lambda _: FORWARD)],
    "asked with the body": lambda: [Recorder(needs=Need.BODY)],
}
CHUNKS = (1 << 18, 1, 11, 64)
BEAT = KINDS["heartbeat-v1"]


def names_a_broker(message) -> bool:
    return any(getattr(each, "host", None) for each in structs(message))


def really(struct, _owner):
    """Return whether each broker of the message has the real address."""
    if getattr(struct, "host", None):
        return replace(struct, host=REAL, port=9092)
    return struct


def request_of(api) -> bytes:
    if api.key == ApiKey.PRODUCE:
        topic = bytes(16) if api.version >= 13 else b"t"
        return produce(api.version, [(topic, [(0, b"records")])])
    return f.request(api.key, api.version, 7, bytes(40), tagged=api.request_header_version == 2)


@for_each(CARRIERS, examples=5)
def test_no_real_address_reaches_a_client(api, data):
    """The replies before and after it arrive unchanged."""
    shape = codec.response_shape(api)
    message = changed(data.draw(messages_of(shape).filter(names_a_broker)), really)
    body = codec.encode(message)
    assert REAL.encode() in body
    replies = (
        BEAT.reply(1, 0)
        + f.reply(7, body, tagged=bool(api.response_header_version))
        + BEAT.reply(2, 0)
    )
    for hooks in HOOKS.values():
        for chunk in CHUNKS:
            wire = Wire(make_engine(hooks()))
            wire.client(BEAT.ask(1) + request_of(api) + BEAT.ask(2))
            assert len(f.split(wire.to_broker)) == 3
            wire.broker(replies, chunk)
            assert REAL.encode() not in wire.to_client
            first, _, last = f.split(wire.to_client)
            assert first == BEAT.reply(1, 0)
            assert last == BEAT.reply(2, 0)
            assert not wire.session.ended
