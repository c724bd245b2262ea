"""Every example policy passes the contract."""

import sys
from pathlib import Path
from typing import ClassVar

import pytest

from policies.testing import PolicyContract

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
sys.path[:0] = [str(EXAMPLES / name) for name in ("ask_first", "client_ids")]

import ask_first  # noqa: E402 - found only by the paths above
from client_ids import ClientIds  # noqa: E402 - as above

del sys.path[:2]


class TestClientIds(PolicyContract):
    """`client_ids` with a prefix."""

    policy = ClientIds
    config: ClassVar = {"prefixes": ["bench"]}


class TestAskFirst(PolicyContract):
    """`ask_first`, whose service allows everything."""

    policy = ask_first.AskFirst
    config: ClassVar = {"url": "http://rights.internal/topics?user="}

    @pytest.fixture(autouse=True)
    def service(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A service that answers without a network."""
        monkeypatch.setattr(ask_first, "ask", lambda *_: True)


def test_every_example_is_tested() -> None:
    """Those of the cookbook have the contract in their own tests; `tokens` has no policy."""
    folders = {each.parent.name for each in EXAMPLES.glob("*/test_*.py")}

    assert folders == {"ask_first", "client_ids", "cookbook", "tokens"}
