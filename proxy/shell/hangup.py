"""A SIGHUP that arrives before the proxy handles signals: noted, so that it does not end the process and is not lost.

Every command installs this first, before slow imports. `sluice run` asks whether one arrived when it handles signals;
another command undoes it, and ends if one did.
"""

from __future__ import annotations

import signal


class _Noted:
    """Whether a SIGHUP arrived, and what handled it before."""

    once = False
    before: signal._HANDLER = signal.SIG_DFL


_noted = _Noted()


def note() -> None:
    """Note each SIGHUP from now on, until another handler is installed."""
    _noted.before = signal.signal(signal.SIGHUP, _on_hangup)


def obey() -> None:
    """Let SIGHUP do what it did before `note`, also one that arrived since. Does nothing without `note`."""
    if signal.getsignal(signal.SIGHUP) is _on_hangup:
        signal.signal(signal.SIGHUP, _noted.before)
        if was_noted():
            signal.raise_signal(signal.SIGHUP)


def was_noted() -> bool:
    """Return whether a SIGHUP arrived since the last call."""
    found, _noted.once = _noted.once, False
    return found


def _on_hangup(*_: object) -> None:
    _noted.once = True
