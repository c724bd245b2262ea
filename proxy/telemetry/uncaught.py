"""Uncaught exceptions and warnings become lines of the log: with its format, and its limits.

- Python itself writes to standard error for an exception that cannot be raised (in a finalizer, or in a callback of a
  C library), for one that ends a thread or the process, and for a warning. Any client can cause some of these.
- A server name (SNI) that is not ASCII is one of them: Python decodes it before a callback of ours. The line
  `handshake_failed` tells it, so it has none here.
- A handler of `logging` that fails is silent: it would print a traceback.
"""

from __future__ import annotations

import logging
import sys
import threading
import warnings
from contextlib import suppress
from typing import TYPE_CHECKING, TextIO

import structlog

from proxy.telemetry.escaping import printable

if TYPE_CHECKING:
    from types import TracebackType


def install() -> None:
    """Replace Python's hooks for this process; `log.configure` comes first."""
    sys.unraisablehook = _on_unraisable
    sys.excepthook = _on_crash
    threading.excepthook = _on_thread_ended
    warnings.showwarning = _on_warning
    logging.raiseExceptions = False


def _on_unraisable(found: sys.UnraisableHookArgs) -> None:
    error = found.exc_value
    if isinstance(error, UnicodeDecodeError) and error.object == found.object:
        return
    place = getattr(found.object, "__qualname__", type(found.object).__qualname__)
    _report(error, f"{found.err_msg or 'ignored in'} {place}")


def _on_thread_ended(found: threading.ExceptHookArgs) -> None:
    if not issubclass(found.exc_type, SystemExit):
        _report(found.exc_value, f"thread {found.thread.name if found.thread else ''}")


def _on_crash(
    kind: type[BaseException], error: BaseException, traceback: TracebackType | None
) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, traceback)
    else:
        _report(error, "the process ends")


def _on_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,  # noqa: ARG001 - of the hook
    line: str | None = None,  # noqa: ARG001 - of the hook
) -> None:
    with suppress(Exception):
        words = f"{category.__name__}: {message} ({filename}:{lineno})"
        structlog.get_logger().warning(
            "library_message", logger="warnings", message=printable(words)
        )


def _report(error: BaseException | None, where: str) -> None:
    with suppress(Exception):  # it is the last handler
        structlog.get_logger().warning("internal_error", where=printable(where), exc_info=error)
