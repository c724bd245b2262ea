"""`sluice demo`: real clients, a real Sluice and an embedded cluster, and a verdict on what was measured.

Rules:
- The cluster, Sluice and each client are processes of their own: no client shares an interpreter with another, and the
  kernel lists each one's sockets separately.
- The verdict is a pure function of what the clients and the kernel report (`checks.judge`), never of what Sluice says.
"""

from __future__ import annotations

import importlib.util
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

MISSING = "The demo needs two Kafka clients: install kafka-sluice[demo]."
DEFAULT_SECONDS = 40.0
INTERRUPTED = 130


def run(
    seconds: float = DEFAULT_SECONDS,
    *,
    plain: bool = False,
    page: Path | None = None,
    usage_log: Path | None = None,
    quotas_file: Path | None = None,
) -> int:
    """Run the demo on standard output, write the page of the run to `page`, and return the exit code.

    With `usage_log` clients with habits follow the job, and Sluice writes its usage log and traces into that folder.
    Their quotas are those of `quotas_file`, if it is given.
    0: no check fails. 1: a check fails, or the demo could not be completed. 2: a Kafka client is missing.
    130: interrupted.
    """
    import trio  # noqa: PLC0415 - `sluice version` should not pay for the demo
    from rich.console import Console  # noqa: PLC0415 - same

    from proxy.demo.cluster import Sluice  # noqa: PLC0415 - same
    from proxy.demo.console import Screen  # noqa: PLC0415 - same
    from proxy.demo.experiment import schedule_of  # noqa: PLC0415 - same
    from proxy.demo.play import play  # noqa: PLC0415 - same

    console = Console()
    if any(importlib.util.find_spec(name) is None for name in ("confluent_kafka", "kafka")):
        console.print(MISSING, markup=False)
        return 2
    code = INTERRUPTED
    try:
        screen = Screen(console, plain=plain)
        played = partial(
            play,
            schedule_of(seconds),
            screen,
            partial(Sluice, usage_log=usage_log, quotas_file=quotas_file),
            page,
            has_habits=usage_log is not None,
        )
        code = trio.run(played)
    except* KeyboardInterrupt:
        console.print("Interrupted: no verdict.", markup=False)
    return code
