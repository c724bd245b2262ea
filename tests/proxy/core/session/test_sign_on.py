"""Requests of a sign-on are free; any later ApiVersions or SASL request is counted, held and throttled like others."""

import pytest

from policies.api import FORWARD, Hold, Throttle, Verdict
from proxy.core.session.plan_book import MIN_SIGN_ON_INTERVAL_MS
from proxy.core.stats.capture import Capture
from tests.support.core.gated import ALICE, LIFETIME_MS, Gated
from tests.support.core.policies import Recorder
from tests.support.core.sasl_steps import BY_PLAIN, BY_SCRAM, Steps, play
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f
from tests.support.messages import sasl
from tests.support.messages.throttled import versions, versions_reply

UNSUPPORTED = 99


class Counter(Recorder):
    """Counts as a quota does."""

    asked_first = True

    @property
    def counted(self) -> int:
        """Return how many requests it has seen."""
        return len(self.asked)


def session(*verdicts: Verdict, **options: object) -> tuple[Wire, Counter]:
    """Return a session whose counter gives these verdicts, and then FORWARD."""
    left = list(verdicts)
    counter = Counter(lambda _: left.pop(0) if left else FORWARD)
    return Wire(make_engine([counter], **options)), counter


def exempt(wire: Wire) -> int:
    """Return how many requests of the client no quota counts, as the usage log has it."""
    return wire.session.usage.exempt


@pytest.mark.parametrize("chunk", [1, 1 << 16])
def test_the_first_api_versions_is_free_and_later_ones_count(chunk: int) -> None:
    """In any version, on one connection as on another, and however often a read ends inside it."""
    wire, counter = session()
    for number, version in enumerate((1, 1, 3, 1)):
        wire.client(versions(number, version), chunk)
        wire.broker(versions_reply(number, 0, version, 15))
    assert (counter.counted, exempt(wire)) == (3, 1)
    other = Wire(wire.engine)
    other.client(versions(1, 1)).broker(versions_reply(1, 0, 1, 15))
    assert counter.counted == 3


@pytest.mark.parametrize("chunk", [1, 1 << 16])
def test_a_version_that_sluice_answers_itself_counts_too(chunk: int) -> None:
    """Its reply is Sluice's own, and never asked of the broker, however the stream is cut."""
    wire, counter = session(now_ms=5)
    asked = f.request(f.API_VERSIONS, UNSUPPORTED, 7, b"\x01\x01\x00", tagged=True)
    wire.client(asked * 3, chunk)
    assert counter.counted == 2
    assert wire.to_broker == b""
    first = wire.to_client[: len(wire.to_client) // 3]
    assert wire.to_client == first * 3


def test_such_an_answer_waits_and_mutes_as_any_reply() -> None:
    """A held one is answered here when it is woken; a throttle begins after it."""
    wire, counter = session(Hold(1000, "key"), Throttle(300))
    asked = f.request(f.API_VERSIONS, UNSUPPORTED, 7, b"\x01\x01\x00", tagged=True)
    wire.client(asked + asked)
    size = len(wire.to_client)
    assert size > 0
    wire.wake("key")
    assert len(wire.to_client) == 2 * size
    assert wire.to_broker == b""
    wire.client(asked)
    wire.advance(299)
    assert len(wire.to_client) == 2 * size
    wire.advance(2)
    assert len(wire.to_client) == 3 * size
    assert counter.counted == 3


@pytest.mark.parametrize("steps", [BY_PLAIN, BY_SCRAM], ids=["PLAIN", "SCRAM"])
def test_a_login_at_the_broker_is_free(steps: Steps) -> None:
    """And so is the next one, which begins a second later or more (KIP-368)."""
    wire, counter = session()
    play(wire, *steps)
    wire.advance(MIN_SIGN_ON_INTERVAL_MS)
    play(wire, *steps)
    assert counter.counted == 0


def test_sasl_requests_after_a_login_count() -> None:
    """A flood of handshakes is free once a second, as in Kafka; a token without a handshake is never free."""
    wire, counter = session()
    play(wire, *BY_PLAIN)
    for _ in range(5):
        play(wire, (sasl.handshake(1, "PLAIN"), sasl.handshake_reply(1, 34)))
    assert counter.counted == 5
    play(wire, (sasl.authenticate(2, ALICE), sasl.authenticate_reply(2, b"", 34)))
    assert counter.counted == 6
    assert not wire.session.ended


@pytest.mark.parametrize("asked", [versions(1, 1), sasl.handshake(1, "PLAIN")])
def test_an_exchange_that_has_begun_frees_no_other_request(asked: bytes) -> None:
    """Requests behind a handshake in the same write count, although the handshake is not answered yet."""
    wire, counter = session()
    wire.client(versions(0, 1)).broker(versions_reply(0, 0, 1, 15))
    wire.client(sasl.handshake(1, "PLAIN") + asked * 20)
    assert counter.counted == 20


def gated(max_reauth_ms: int = 0) -> Gated:
    """Return a session whose client authenticates to Sluice, with a policy that counts."""
    made = Gated(max_reauth_ms)
    made.recorder.asked_first = True
    made.engine.chain.reconsider()
    return made


def test_where_sluice_authenticates_a_login_is_free_and_later_requests_count() -> None:
    """Each is refused by Sluice, as from a Kafka listener that does not ask for it again."""
    made = gated()
    wire = made.sign_in()
    assert made.recorder.asked == []
    for number in range(4):
        wire.client(sasl.handshake(number, "PLAIN"))
    wire.client(sasl.authenticate(5, ALICE))
    assert len(made.recorder.asked) == 5
    for number in (1, 2):
        wire.client(versions(number, 1)).broker(versions_reply(number, 0, 1, 15))
    assert len(made.recorder.asked) == 6


def test_where_sluice_authenticates_a_reauthentication_is_free() -> None:
    """It is as far from the login as Kafka's clients keep it."""
    made = gated(LIFETIME_MS)
    wire = made.sign_in()
    wire.advance(MIN_SIGN_ON_INTERVAL_MS)
    made.sign_in()
    assert made.speaker() == ("alice", "sasl")
    assert len(made.recorder.asked) == 1


def test_where_no_client_authenticates_every_sasl_request_counts() -> None:
    """Sluice refuses them itself, and they cost it as much as others."""
    wire, counter = session()
    wire.engine.has_custody = True
    for number in range(3):
        wire.client(sasl.handshake(number, "PLAIN"))
    assert counter.counted == 3
    assert wire.to_broker == b""


def test_a_capture_has_a_row_for_each_request_also_for_those_answered_here() -> None:
    """The free one is marked as not charged."""
    capture = Capture()
    wire, _ = session(capture=capture)
    asked = f.request(f.API_VERSIONS, UNSUPPORTED, 7, b"\x01\x01\x00", tagged=True)
    wire.client(asked + asked + f.heartbeat(8)).broker(f.heartbeat_reply(8))
    rows = sorted(capture.take(), key=lambda seen: seen.number)
    assert [seen.is_exempt for seen in rows] == [True, False, False]
    assert [seen.verdict for seen in rows] == ["none", "forward", "forward"]
    assert all(seen.reply_bytes for seen in rows)
