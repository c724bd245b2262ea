"""`sluice run --dev`: a changed plug-in is used by the connections that are open, a broken one never."""

import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Self

import psutil
import pytest
import trio
from confluent_kafka import Producer

from proxy.config.volume import SOURCE_POLL_S, ConfigVolume, SourceWatch
from proxy.testing import LiveSluice, sluice_with  # noqa: F401 - a fixture

PLUGIN = '''
"""Refuses keys."""
import msgspec

from dev_plugin_words import CODE
from policies.api import FORWARD, Policy, Reject
from wire.apis import ApiKey


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """None."""


class Mood(Policy):
    """Refuses Produce with CODE, unless it is 0."""

    Config = Settings
    apis = frozenset({ApiKey.PRODUCE})
    refused = 0

    def adopt(self, previous):
        self.refused = previous.refused

    def on_request(self, request, peer, now_ms):
        if not CODE:
            return FORWARD
        self.refused += 1
        return Reject(CODE, message=f"refused {self.refused}")
'''


class Load:
    """A producer that sends a record every few milliseconds, and remembers the error codes of the last ones."""

    def __init__(self, bootstrap: str) -> None:
        settings = {"bootstrap.servers": bootstrap, "linger.ms": 0, "log_level": 0}
        self._producer = Producer(settings)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.codes: Counter[int] = Counter()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(0.005):
            self._producer.produce("orders", b"v", on_delivery=self._on_delivery)
            self._producer.poll(0)
        self._producer.flush(60)

    def _on_delivery(self, error: object, _: object) -> None:
        self.codes[error.code() if error else 0] += 1

    def await_code(self, code: int) -> None:
        """Wait until two further records end with this code."""
        wanted, ended = self.codes[code] + 2, threading.Event()
        for _ in range(6_000):
            if self.codes[code] >= wanted:
                return
            ended.wait(0.01)
        raise AssertionError(f"no record ends with {code}: {self.codes}")


def connections(sluice: LiveSluice) -> set[int]:
    """Return the local ports of this process's connections to Sluice."""
    first = int(sluice.bootstrap.rpartition(":")[2])
    return {
        each.laddr.port
        for each in psutil.Process().net_connections("tcp")
        if each.status == psutil.CONN_ESTABLISHED and first < each.raddr.port <= first + 10
    }


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A plug-in of two modules that passes everything; where Sluice finds it."""
    folder = tmp_path / "plugin"
    folder.mkdir()
    (folder / "dev_plugin.py").write_text(PLUGIN)
    (folder / "dev_plugin_words.py").write_text("CODE = 0\n")
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    return folder


def test_a_change_is_used_without_a_reconnect(plugin: Path, sluice_with) -> None:  # noqa: F811 - the fixture
    """Under load: refusing, then broken, then repaired."""
    sluice = sluice_with([{"use": "dev_plugin:Mood"}], options=["--dev"])
    source = plugin / "dev_plugin.py"

    with Load(sluice.bootstrap) as load:
        load.await_code(0)
        before = connections(sluice)
        source.write_text(PLUGIN.replace("import CODE", "import CODE as _\nCODE = 44"))
        load.await_code(44)
        source.write_text("import nothing_there\n")
        sluice.await_log(lambda log: "nothing_there" in log)
        load.await_code(44)
        source.write_text(PLUGIN)
        load.await_code(0)
        after = connections(sluice)

    assert before
    assert before <= after  # the client may open another for its metadata
    assert sluice.log().count("config_reloaded") == 2
    assert sluice.log().count("config_reload_failed") == 1
    assert set(load.codes) == {0, 44}


def test_without_the_option_nothing_is_followed(plugin: Path, sluice_with) -> None:  # noqa: F811 - the fixture
    """In production a changed file has no effect, not even at a reload."""
    sluice = sluice_with([{"use": "dev_plugin:Mood"}])
    with Load(sluice.bootstrap) as load:
        load.await_code(0)
        (plugin / "dev_plugin.py").write_text(
            PLUGIN.replace("import CODE", "import CODE as _\nCODE = 44")
        )
        sluice.reload([{"use": "dev_plugin:Mood", "name": "other"}])
        load.await_code(0)

    assert set(load.codes) == {0}


async def test_a_file_is_reloaded_once_it_rests(tmp_path: Path, autojump_clock, nursery) -> None:
    """Several writes are one change; a file that is gone is one, too."""
    file = tmp_path / "plugin.py"
    file.write_text("1")
    changes: list[int] = []
    watch = SourceWatch.__new__(SourceWatch)
    ConfigVolume.__init__(watch, None)
    nursery.start_soon(watch.watch, lambda: changes.append(1), lambda: [str(file)])

    # Between two looks: tasks that wake together run in either order.
    await trio.sleep(2.5 * SOURCE_POLL_S)
    file.write_text("22")
    await trio.sleep(SOURCE_POLL_S)
    file.write_text("333")
    await trio.sleep(4 * SOURCE_POLL_S)
    assert changes == [1]
    file.unlink()
    await trio.sleep(4 * SOURCE_POLL_S)
    assert changes == [1, 1]
    nursery.cancel_scope.cancel()
