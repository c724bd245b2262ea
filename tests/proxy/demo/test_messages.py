"""Messages: what one process says, another hears."""

from __future__ import annotations

import io
import sys
from types import SimpleNamespace

import msgspec
import pytest

from proxy.demo.messages import (
    ClientReady,
    ClusterReady,
    Cues,
    Final,
    Message,
    Tick,
    hear,
    say,
)

MESSAGES: list[Message] = [
    ClusterReady({1: "127.0.0.1:1"}, "orders-1", 4),
    ClientReady(),
    Tick(1.5, acked=2, consumed=3, latency={7: 2}, at_ns=4, answered=5, answered_at_ns=6),
    Final([("polite", 0, [(0, 9)])], 0, 1, 2, {1: "127.0.0.1:2"}),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_what_is_said_is_heard(message: Message, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each message goes over as one line and comes back equal."""
    said = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=said))

    say(message)

    assert said.getvalue().count(b"\n") == 1
    assert hear(said.getvalue()) == message


def test_anything_else_is_refused() -> None:
    """A line that is no message is an error, not a guess."""
    with pytest.raises(msgspec.DecodeError):
        hear(b'{"type": "gossip"}')


def test_cues_come_in_order_and_then_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Known words are told one by one, others are passed over; the end of input is told."""
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"go\nnoise\nmark\n")))

    cues = Cues()

    assert cues.ended.wait(10)
    assert [cues.maybe_next() for _ in range(3)] == ["go", "mark", None]
