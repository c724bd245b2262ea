"""Fixtures that the tests of more than one room of the proxy share."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from proxy.core.engine import Engine
from tests.support.shell.certificates import Authority
from tests.support.shell.sockets import Bench


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Return an authority with files of its own."""
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def missing(tmp_path: Path) -> str:
    """Return the path of a file that does not exist."""
    return str(tmp_path / "missing.pem")


@pytest.fixture
def make_bench() -> Iterator[Callable[[Engine | None], Bench]]:
    """Return a function that makes an event loop around an engine; the test's end closes all of them."""
    with ExitStack() as stack:
        yield lambda engine=None: stack.enter_context(closing(Bench(engine)))


@pytest.fixture
def bench(make_bench: Callable[[], Bench]) -> Bench:
    """Return an event loop whose engine has no policies."""
    return make_bench()
