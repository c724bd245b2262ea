"""A made-up file of traces, as large as one likes: the spans of two real traces with other ids, users and times."""

from itertools import count
from pathlib import Path
from typing import Final

from policies.api import QuotaViolation
from proxy.telemetry.traces.file_exporter import FileSpanExporter
from proxy.telemetry.traces.spans import Span, mute_span, spans_of
from tests.support.telemetry.request_traces import EPOCH_US, trace, waits

BATCH_SPANS: Final = 512
"""In a line, as Sluice writes them."""
USERS: Final = 200
_TRACE_ID: Final = 0x1234_5678_9ABC_DEF0_0FED_CBA9_8765_4321
_MUTE_ID: Final = _TRACE_ID ^ 0xFF00
_SPACING_US: Final = 10_000
"""From one request to the next."""


def make_traces(file: Path, spans: int) -> int:
    """Write at least so many spans, once; return how many. Half of the requests are throttled and then muted."""
    if not file.exists():
        made = _throttled(), _sampled()
        exporter = FileSpanExporter(file.with_suffix(".none"), 1 << 20, _RESOURCE, _SCOPE)
        frame, bodies = b"", []
        for each in made:
            line = exporter.line_of(each)
            head, _, rest = line.partition(b'"spans":[')
            body, _, tail = rest.rpartition(b"]}]}]}")
            frame = head + b'"spans":[%b]}]}]}' + tail
            bodies.append(body)
        exporter.close()
        file.with_suffix(".none").unlink()
        sizes = [len(each) for each in made]
        _write(file, frame, bodies, sizes, spans)
    with file.open("rb") as lines:
        return sum(line.count(b'"traceId"') - line.count(b'"links"') for line in lines)


_RESOURCE: Final = {"service.name": "sluice", "service.version": "0.1.0"}
_SCOPE: Final = {"name": "sluice", "version": "0.1.0"}


def _throttled() -> list[Span]:
    excess = QuotaViolation("user=user-000", "request_rate", 120.0, 100.0)
    made = trace(waits(("throttle", 20_000)), excess=excess, quiet_ms=50)
    made.trace_id = f"{_TRACE_ID:032x}"
    mute = mute_span(made, made.ended_us + 50_000, lambda: _MUTE_ID)
    return [*spans_of(made, count(1).__next__), mute]


def _sampled() -> list[Span]:
    made = trace(upstream_us=3_000)
    made.sampled = True
    made.trace_id = f"{_TRACE_ID:032x}"
    return spans_of(made, count(1).__next__)


def _write(file: Path, frame: bytes, bodies: list[bytes], sizes: list[int], spans: int) -> None:
    """Write the bodies in turns. A request replaces the second half of ids, the user, and the digits of the times."""
    old_id, old_mute = (f"{each & (2**64 - 1):016x}".encode() for each in (_TRACE_ID, _MUTE_ID))
    old_time = str(EPOCH_US)[:-7].encode()
    done = 0
    numbers = count()
    with file.open("wb") as out:
        while done < spans:
            batch = []
            inside = 0
            while inside < BATCH_SPANS:
                number = next(numbers)
                kind = number % len(bodies)
                body = bodies[kind].replace(old_id, b"%016x" % (2 * number + 1))
                body = body.replace(old_mute, b"%016x" % (2 * number + 2))
                body = body.replace(b'"alice"', b'"user-%03d"' % (number // 2 % USERS))
                at = (EPOCH_US + number * _SPACING_US) // 10**7
                batch.append(body.replace(old_time, b"%d" % at))
                inside += sizes[kind]
            done += inside
            out.write(frame % b",".join(batch))
