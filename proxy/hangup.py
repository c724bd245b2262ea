"""A SIGHUP that arrives before the proxy handles signals: noted, so that it does not end the process and is not lost.

`sluice run` installs this first, before slow imports. When the proxy handles signals, it asks whether one arrived.
"""

from __future__ import annotations

import signal


class _Noted:
    """Whether a SIGHUP arrived."""

    once = False


_noted = _Noted()


def note() -> None:
    """Note each SIGHUP from now on, until another handler is installed."""
    signal.signal(signal.SIGHUP, _on_hangup)


def was_noted() -> bool:
    """Return whether a SIGHUP arrived since the last call."""
    found, _noted.once = _noted.once, False
    return found


def _on_hangup(*_: object) -> None:
    _noted.once = True
