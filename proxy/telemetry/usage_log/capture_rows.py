"""The family `capture`: a row for each request that has ended while the core keeps a capture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.telemetry.usage_log.rows import CaptureRow, Stamp, cut

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from proxy.core.capture import Seen

_SECOND_MS = 1000


def capture_rows(stamp: Stamp, ended: Sequence[Seen]) -> Iterator[CaptureRow]:
    """In the order they ended; `seq` is the order in which they were asked about."""
    for seen in ended:
        exchange = seen.exchange
        plan = exchange.plan
        peer, api = plan.peer, plan.api
        released = seen.released or ()
        yield CaptureRow(
            instance=stamp.instance,
            boot=stamp.boot,
            seq=seen.number,
            ts_ms=seen.asked_ms // _SECOND_MS * _SECOND_MS,
            event=seen.event,
            now_ms=seen.asked_ms,
            session=peer.session_id,
            exchange=exchange.exchange_id,
            user=cut(peer.user),
            client_id=cut(peer.client_id),
            node=peer.node_id,
            api_key=api.key,
            api_version=api.version,
            acks=plan.acks,
            size_bytes=exchange.size_bytes,
            charged=not seen.spared,
            verdict=seen.verdict,
            delay_ms=seen.delay_ms,
            released_event=[event for event, _ in released],
            released_ms=[at_ms for _, at_ms in released],
            replied_event=seen.replied_event,
            replied_ms=seen.replied_ms,
            reply_bytes=seen.reply_bytes,
            reply_throttle_time_ms=seen.reply_throttle_time_ms,
            reply_delay_ms=seen.reply_delay_ms,
            outcome=seen.outcome.value,
            ended_ms=seen.ended_ms,
        )
