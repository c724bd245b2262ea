"""What `sluice demo` plays: real clients, a real Sluice, an embedded cluster, a verdict.

Rules:
- Everything that is judged comes from the clients' own books and from the kernel's list of sockets,
  never from Sluice's word.
- The cluster, Sluice and each client are processes of their own, so that no client borrows
  another's interpreter and each one's sockets can be told apart.
- The verdict is a pure function of what was collected (`verdict.judge`).
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


def run(seconds: float = DEFAULT_SECONDS, *, plain: bool = False, page: Path | None = None) -> int:
    """Play the demo on standard output, write the page of the run to `page`, and return the exit code.

    0: no check fails. 1: one does, or the demo could not be played. 2: no Kafka clients.
    130: interrupted.
    """
    import trio  # noqa: PLC0415 - `sluice version` should not pay for the demo
    from rich.console import Console  # noqa: PLC0415 - same

    from proxy.demo.contest import script_of  # noqa: PLC0415 - same
    from proxy.demo.screen import choose  # noqa: PLC0415 - same
    from proxy.demo.stage import play  # noqa: PLC0415 - same

    console = Console()
    if any(importlib.util.find_spec(name) is None for name in ("confluent_kafka", "kafka")):
        console.print(MISSING, markup=False)
        return 2
    code = INTERRUPTED
    try:
        screen = choose(console, plain=plain)
        code = trio.run(partial(play, script_of(seconds), screen, page=page))
    except* KeyboardInterrupt:
        console.print("Interrupted: no verdict.", markup=False)
    return code
