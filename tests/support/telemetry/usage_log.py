"""An engine with a usage log, without a thread, and the rows that a reader of the files sees."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from policies.api import EffectiveQuota, Policy
from policies.chain import Chain, Entry
from proxy.core.engine import Engine
from proxy.core.observer import Observer
from proxy.core.session.engine_options import EngineOptions
from proxy.core.stats.capture import Capture
from proxy.core.topology import Topology
from proxy.telemetry.usage_log.usage_log import UsageLogObserver

START_MS = 1_763_683_200_000  # a whole second, and the first of a day


class Recording:
    """An engine and its usage log. Nothing is written before `stop`."""

    def __init__(
        self,
        directory: Path,
        families: Sequence[str] = ("entity",),
        policies: Sequence[Policy] = (),
        *,
        capture: Capture | None = None,
        effective_quota: Callable[[str, str], EffectiveQuota | None] = lambda *_: None,
        **settings: int,
    ) -> None:
        self.directory = directory
        self.usage_log = UsageLogObserver(
            str(directory),
            "pod-7",
            families,
            clock=lambda: START_MS,
            effective_quota=effective_quota,
            version="1.2.3",
            **settings,
        )
        entries = [Entry(f"p{place}", policy) for place, policy in enumerate(policies)]
        self.engine = Engine(
            Topology(
                "127.0.0.1", 19092, {n: ("127.0.0.1", 19093 + n) for n in range(4)}, Observer()
            ),
            Chain(entries, Observer()),
            self.usage_log,
            EngineOptions(meters_by_key="api" in families, capture=capture),
            now_ms=START_MS,
        )
        self.usage_log.attach(self.engine)

    def stop(self) -> None:
        """End the process."""
        self.usage_log.close()

    def rows(self, family: str) -> list[dict[str, object]]:
        """Return the rows of a family that a reader sees, in the order in which they were written."""
        return shown(self.directory, family)


def shown(directory: Path, family: str) -> list[dict[str, object]]:
    """Return the rows in the closed files of a family, file by file."""
    return [
        json.loads(line)
        for path in sorted(directory.glob(f"{family}/dt=*/{family}-*.jsonl"))
        for line in path.read_bytes().splitlines()
    ]
