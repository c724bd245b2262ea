"""A watched file: a settled change counts once, and an error keeps the last content."""

from errno import EACCES

import pytest

from policies.file_watch import POLL_MS
from policies.testing import BenchHost, PolicyBench
from tests.support.plugins.file_reader import FileReader


def reading(content: bytes = b"one") -> tuple[PolicyBench, FileReader]:
    """Return a bench with a policy that watches the file `state`."""
    bench = PolicyBench(FileReader, files={"state": content})
    assert isinstance(bench.policy, FileReader)
    return bench, bench.policy


def test_a_change_counts_when_it_has_settled() -> None:
    """Two readings must agree: what an editor has half written, or takes back, is not seen."""
    bench, policy = reading()
    assert policy.seen == [b"one"]
    for content in (b"", b"tw", b"two"):
        bench.host.files["state"] = content
        bench.advance(POLL_MS)
    assert policy.seen == [b"one"]
    bench.advance(POLL_MS)
    assert policy.seen == [b"one", b"two"]
    bench.advance(10 * POLL_MS)
    assert policy.seen == [b"one", b"two"]

    bench, policy = reading()
    bench.host.files["state"] = b"two"
    bench.advance(POLL_MS)
    bench.host.files["state"] = b"one"
    bench.advance(5 * POLL_MS)
    assert policy.seen == [b"one"]


def test_a_file_that_disappears_is_logged_once_and_keeps_its_content() -> None:
    """Another problem is logged again; when the file is back, a change counts."""
    bench, policy = reading()
    del bench.host.files["state"]
    bench.advance(5 * POLL_MS)
    assert [fields for _, _, fields in bench.reporter.messages] == [
        {"path": "state", "error": "FileNotFoundError: No such file or directory"}
    ]
    bench.threads.is_full = True
    bench.advance(5 * POLL_MS)
    assert len(bench.reporter.messages) == 2
    bench.threads.is_full = False
    bench.host.files["state"] = b"three"
    bench.advance(2 * POLL_MS)
    assert policy.seen == [b"one", b"three"]


def test_a_content_that_the_policy_refuses_is_not_given_again() -> None:
    """Its exception is reported once, and the next content is given."""
    bench, policy = reading()
    bench.host.files["state"] = b"bad"
    bench.advance(5 * POLL_MS)
    ((_, hook, _),) = bench.reporter.errors
    assert hook == "watch_file"
    bench.host.files["state"] = b"good"
    bench.advance(2 * POLL_MS)
    assert policy.seen == [b"one", b"good"]


def test_a_retired_policy_watches_nothing() -> None:
    """It reads no file and sets no alarm."""
    bench, policy = reading()
    bench.host.files["state"] = b"two"
    bench.advance(POLL_MS)
    bench.host.retire_tools()
    bench.advance(5 * POLL_MS)
    assert policy.seen == [b"one"]
    assert bench.host.alarms == []


def test_a_file_must_be_readable_at_the_start() -> None:
    """An entry with a wrong path is a problem at once; and files are named in `__init__`."""

    class Denied(BenchHost):
        def read(self, path: str, max_bytes: int) -> bytes:
            raise OSError(EACCES, "Permission denied", path)

    with pytest.raises(OSError, match="Permission denied"):
        Denied().watch_file("state", lambda _: None)
    bench, _ = reading()
    with pytest.raises(RuntimeError, match="watch_file is called after __init__"):
        bench.host.watch_file("state", lambda _: None)
