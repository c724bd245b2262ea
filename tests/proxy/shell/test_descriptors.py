"""How many clients fit below the limit of open files."""

import resource

import pytest

from proxy.shell.descriptors import RESERVED, connection_limit


@pytest.mark.parametrize(
    ("wanted", "soft", "expected"), [(0, 1064, 495), (10, 1064, 10), (600, 1064, 495), (0, 10, 1)]
)
def test_the_connection_limit_fits_the_descriptor_limit(monkeypatch, wanted, soft, expected):
    """A client takes two of the descriptors that the rest of the process leaves; the setting may lower the limit."""
    monkeypatch.setattr(resource, "setrlimit", lambda *_: None)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, soft))
    assert RESERVED == 64
    assert connection_limit(wanted, others=10) == expected
