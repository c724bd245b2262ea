"""Certificates that change while Sluice runs: new ones are used, broken ones change nothing."""

from datetime import UTC, datetime

import msgspec
import pytest
import trio
from structlog.testing import capture_logs

from proxy.config.sections import ListenSettings
from proxy.config.upstream import UpstreamSettings
from proxy.core.memory.pool import MemoryPool
from proxy.core.memory.unauthenticated import UnauthenticatedBytes
from proxy.shell.event_loop import EventLoop
from proxy.tls.contexts import CertificateFileError
from proxy.tls.setup import POLL_S, Tls
from tests.support.core.sessions import make_engine
from tests.support.shell.certificates import Authority, Pair
from tests.support.shell.sockets import HandClock

END = datetime(2031, 5, 6, tzinfo=UTC)
MEMORY = UnauthenticatedBytes(MemoryPool(), lambda: 0)
LATER = datetime(2032, 5, 6, tzinfo=UTC)


@pytest.fixture
def own(tmp_path) -> tuple[Authority, Pair]:
    authority = Authority(tmp_path)
    return authority, authority.issue("localhost", file_name="own", not_after=END)


@pytest.fixture
def event_loop():
    made = EventLoop(make_engine(), HandClock())
    yield made
    made.close()


def tls_of(event_loop: EventLoop, own: Pair, **upstream: object) -> Tls:
    files = {"cert_file": str(own.cert_file), "key_file": str(own.key_file)}
    listen = msgspec.convert({"tls": files}, ListenSettings)
    settings = {"bootstrap_servers": ["kafka:9093"], "tls": upstream or None}
    return Tls(listen, msgspec.convert(settings, UpstreamSettings), event_loop, MEMORY, HandClock())


def ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


def test_each_side_is_off_without_its_section(event_loop):
    """Nothing is watched, nothing ends."""
    upstream = UpstreamSettings(bootstrap_servers=("kafka:9092",))
    off = Tls(ListenSettings(), upstream, event_loop, MEMORY, HandClock())
    assert (off.listener, off.connector, off.expires_ms) == (None, None, {})


def test_the_end_of_our_own_certificates_is_known_for_each_side(event_loop, own):
    """An authority's is not ours."""
    authority, pair = own
    files = {"cert_file": str(pair.cert_file), "key_file": str(pair.key_file)}
    tls = tls_of(event_loop, pair, ca_file=str(authority.ca_file), **files)
    assert tls.expires_ms == {"listen": ms(END), "upstream": ms(END)}


async def test_changed_files_are_loaded_at_a_reload_and_after_a_while(
    event_loop, own, autojump_clock, nursery
):
    """The contents count; the same contents again are not loaded."""
    authority, pair = own
    tls = tls_of(event_loop, pair)
    before = tls.listener._context
    pair.cert_file.write_bytes(pair.cert_file.read_bytes())
    assert await tls.load_changed() == ""
    assert tls.listener._context is before
    authority.issue("localhost", file_name="own", not_after=LATER)
    with capture_logs() as lines:
        assert await tls.load_changed() == ""
    assert tls.listener._context is not before
    assert tls.expires_ms == {"listen": ms(LATER)}
    assert [(line["event"], line["listen_expires"]) for line in lines] == [
        ("certificates_loaded", "2032-05-06")
    ]
    nursery.start_soon(tls.watch)
    authority.issue("localhost", file_name="own", not_after=END)
    while tls.expires_ms != {"listen": ms(END)}:  # noqa: ASYNC110 - a thread reads the files
        await trio.sleep(POLL_S)
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("broken", [b"", b"no certificate", None])
async def test_a_file_that_cannot_be_used_changes_nothing_until_it_is_repaired(
    event_loop, own, broken
):
    """The log and the reload's result have the cause; it is told once."""
    authority, pair = own
    tls = tls_of(event_loop, pair)
    before = tls.listener._context
    if broken is None:
        pair.cert_file.unlink()
    else:
        pair.cert_file.write_bytes(broken)
    with capture_logs() as lines:
        refused = await tls.load_changed()
        assert refused.startswith(f"cert_file {pair.cert_file}: ")
        assert await tls.load_changed() == refused
    assert [line["event"] for line in lines] == ["certificates_refused"]
    assert (tls.listener._context, tls.expires_ms) == (before, {"listen": ms(END)})
    authority.issue("localhost", file_name="own", not_after=LATER)
    assert await tls.load_changed() == ""
    assert tls.expires_ms == {"listen": ms(LATER)}


def test_a_file_that_cannot_be_used_at_the_start_is_an_error(event_loop, own):
    """There is no old one to keep."""
    _, pair = own
    pair.key_file.unlink()
    with pytest.raises(CertificateFileError, match="key_file"):
        tls_of(event_loop, pair)
