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
    Final,
    Message,
    Tick,
    hear,
    say,
    until_input_ends,
)

MESSAGES: list[Message] = [
    ClusterReady({1: "127.0.0.1:1"}, "orders-1", 4),
    ClientReady(),
    Tick(requests_per_s=1.5, acked=2, consumed=3, latency={7: 2}),
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


def test_the_end_of_input_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The event is set once standard input has ended."""
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"noise\n")))

    assert until_input_ends().wait(10)
