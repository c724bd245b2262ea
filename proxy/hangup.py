"""SIGHUP before the proxy can heed it: noted, so that it neither ends the process nor is forgotten.

The first thing that `sluice run` does, before anything that takes time to import. Once the proxy heeds signals itself,
it asks whether one came.
"""

from __future__ import annotations

import signal


class _Noted:
    """Whether one came."""

    once = False


_noted = _Noted()


def note() -> None:
    """From now on a SIGHUP is noted; whoever heeds signals later takes the place of this."""
    signal.signal(signal.SIGHUP, _on_hangup)


def was_noted() -> bool:
    """Whether a SIGHUP came that has not been asked for yet."""
    found, _noted.once = _noted.once, False
    return found


def _on_hangup(*_: object) -> None:
    _noted.once = True
