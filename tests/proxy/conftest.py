"""Fixtures that the tests of more than one room of the proxy share."""

from __future__ import annotations

from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

import pytest

from tests.support.sockets import Bench

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from proxy.core.engine import Engine


@pytest.fixture
def make_bench() -> Iterator[Callable[[Engine | None], Bench]]:
    """Return a function that makes an event loop around an engine; the test's end closes all of them."""
    with ExitStack() as stack:
        yield lambda engine=None: stack.enter_context(closing(Bench(engine)))


@pytest.fixture
def bench(make_bench: Callable[[], Bench]) -> Bench:
    """Return an event loop whose engine has no policies."""
    return make_bench()
