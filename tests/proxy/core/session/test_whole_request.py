"""A Fetch that is kept whole for its topics: the broker opens no session for it."""

from policies.api import Need, Outcome
from tests.support.core.policies import Recorder
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages.kafka_messages import api_of
from tests.support.messages.named_topics import Watcher, fetch
from wire import codec
from wire.apis import ApiKey
from wire.errors import ErrorCode


def test_a_broker_opens_no_fetch_session():
    """The epoch that asks for a session becomes the one that asks for none; all else stays."""
    watcher = Watcher(apis={ApiKey.FETCH})
    wire = Wire(make_engine([watcher]))
    wire.client(fetch(0, 0) + fetch(9, 0) + fetch(9, -1))
    assert wire.to_broker == fetch(0, -1) + fetch(9, -1) + fetch(9, -1)
    assert [seen[2] for seen in watcher.seen] == [True] * 3


def test_a_fetch_that_continues_a_session_is_answered_here():
    """It may be from before a reload, or of another connection: the client names all topics again."""
    watcher = Watcher(apis={ApiKey.FETCH})
    wire = Wire(make_engine([watcher]))
    wire.client(fetch(9, 4))
    assert watcher.seen[0][2] is False
    assert wire.to_broker == b""
    reply = codec.decode_response(api_of(1, 13), wire.to_client[9:])
    assert (int(reply.error_code), reply.session_id, reply.responses) == (
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0, (),
    )  # fmt: skip
    assert watcher.completed == [(1, Outcome.ANSWERED)]


def test_fetch_sessions_stay_without_such_a_policy():
    """Need.HEAD changes nothing."""
    wire = Wire(make_engine([Recorder(needs=Need.HEAD)]))
    wire.client(fetch(0, 0) + fetch(9, 4))
    assert wire.to_broker == fetch(0, 0) + fetch(9, 4)
