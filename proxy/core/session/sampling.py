"""Chooses the requests that are sampled: one in `sample_every` of a session gets a trace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.core.session.exchange import Exchange, observed
from proxy.core.session.traces import trace_of

if TYPE_CHECKING:
    from proxy.core.session.exchange import ObservedExchange
    from proxy.core.session.link import Link


def resample(link: Link, every: int) -> None:
    """Sample one request in `every` from now on; 0: none."""
    link.samples = every != 0
    link.sample_left = link.shared.sample_from() if every else 0


def on_arrived(link: Link, exchange: ObservedExchange) -> None:
    """Sample this request of the general path, if one is due."""
    link.sample_left -= 1
    if link.sample_left <= 0:
        _sample(link, exchange)


def sample_newest(link: Link) -> None:
    """Sample the newest request, which has taken the fast path, because one is due."""
    newest = link.queue[-1] if link.queue else None
    if isinstance(newest, Exchange) and link.shared.keeps_traces:
        sampled = observed(newest)
        link.queue.replace_newest(sampled)
        _sample(link, sampled)


def _sample(link: Link, exchange: ObservedExchange) -> None:
    link.sample_left = link.shared.sample_every
    trace = trace_of(link.shared, exchange)
    if trace is not None:
        trace.sampled = True
