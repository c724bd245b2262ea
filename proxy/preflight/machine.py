"""The checks before a start that need the machine: files, folders, environment variables and the date.

Rules:
- `sluice check` and `sluice run` both make them, so a configuration that passes the check starts. Only free ports are
  left to the start, because a running proxy has them.
- Every problem is reported, not only the first. Nothing is created, opened for writing or connected.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from policies.validation import Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from proxy.config import Config

FOLDER_WORDS = "a folder that Sluice may write to"


def findings(config: Config, environ: Mapping[str, str], now_s: float) -> Iterator[Problem | str]:
    """Yield every problem that would stop `run`, by key path or variable, and every hint (a text)."""
    yield from problems(config, environ)
    if config.has_secrets():
        from proxy.preflight import security_files  # noqa: PLC0415 - start-up: only with TLS or SASL

        yield from security_files.findings(config, environ, now_s)


def problems(config: Config, environ: Mapping[str, str]) -> Iterator[Problem]:
    """Yield the problems of all files and variables but those of TLS and SASL."""
    yield from _token(config.admin.token_file)
    yield from _socket(config.admin.socket_path)
    if config.usage_log.directory:
        yield from _folder("usage_log.directory", Path(config.usage_log.directory), makes=True)
    yield from _traces(config, environ)
    if config.audit.file:
        yield from _file("audit.file", config.audit.file)
    if config.metrics.otlp:
        yield from _numbers(
            environ, ("OTEL_EXPORTER_OTLP_TIMEOUT", "OTEL_EXPORTER_OTLP_METRICS_TIMEOUT")
        )


def _token(file: str) -> Iterator[Problem]:
    if not file:
        return
    from proxy.admin.token import Token  # noqa: PLC0415 - only with a token

    try:
        Token(file)
    except OSError as error:
        yield Problem(
            "admin.token_file", f"{file!r}: {error.strerror or error}", "a readable token"
        )


def _socket(path: str) -> Iterator[Problem]:
    if not path:
        return
    yield from _folder("admin.socket", Path(path).parent, makes=False)
    mode = _mode(Path(path))
    if mode is not None and not stat.S_ISSOCK(mode):
        yield Problem(
            "admin.socket",
            f"{path!r}, a file that is no socket",
            "a free path, or that of a socket",
        )


def _traces(config: Config, environ: Mapping[str, str]) -> Iterator[Problem]:
    from proxy.telemetry.traces import resource  # noqa: PLC0415 - only what the command needs

    traces = config.traces
    if not resource.wants_traces(traces.export, traces.file, environ):
        return
    if traces.export == "otlp" or (traces.export == "auto" and resource.wants_otlp(environ)):
        yield from _asked(lambda: resource.check_otlp(environ))
        yield from _asked(lambda: resource.timeout_ms(environ))
    elif not traces.file:
        yield Problem("traces.file", "nothing", "a path, because traces.export is file")
    else:
        yield from _file("traces.file", traces.file)
    yield from _numbers(
        environ,
        ("OTEL_BSP_MAX_QUEUE_SIZE", "OTEL_BSP_SCHEDULE_DELAY", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE"),
    )


def _numbers(environ: Mapping[str, str], names: tuple[str, ...]) -> Iterator[Problem]:
    from proxy.telemetry.traces import resource  # noqa: PLC0415 - only what the command needs

    for name in names:
        yield from _asked(lambda name=name: resource.setting(environ, name, 0))  # type: ignore[misc] # mypy infers no type for a default of a lambda


def _asked(ask: Callable[[], object]) -> Iterator[Problem]:
    """Yield the TracesError that `ask` raises as a problem."""
    from proxy.telemetry.traces.resource import TracesError  # noqa: PLC0415 - as above

    try:
        ask()
    except TracesError as error:
        yield Problem("", str(error), origin="the environment")


def _file(path: str, name: str) -> Iterator[Problem]:
    """Check a file that Sluice appends to and creates if it does not exist."""
    file = Path(name)
    yield from _folder(path, file.parent, makes=False)
    mode = _mode(file)
    if mode is not None and not (stat.S_ISREG(mode) and os.access(file, os.W_OK)):
        yield Problem(path, repr(name), "a file that Sluice may write to")


def _folder(path: str, folder: Path, *, makes: bool) -> Iterator[Problem]:
    """Check a folder; with `makes` Sluice creates it and its parents."""
    above = folder
    while makes and _mode(above) is None and above != above.parent:
        above = above.parent
    mode = _mode(above)
    if mode is None:
        yield Problem(path, f"{str(folder)!r}, which does not exist", FOLDER_WORDS)
    elif not (stat.S_ISDIR(mode) and os.access(above, os.W_OK | os.X_OK)):
        yield Problem(path, repr(str(above)), FOLDER_WORDS)


def _mode(path: Path) -> int | None:
    """Return the mode of a file; None if it does not exist or cannot be read."""
    try:
        return path.stat().st_mode
    except (OSError, ValueError):
        return None
