"""Read the state of a session."""

from proxy.core.session import mutes
from proxy.core.session.exchange import ObservedExchange
from proxy.core.session.session import Session


def is_diverted(session: Session) -> bool:
    """Return whether its requests take the general path."""
    return session.diverted


def is_throttled(session: Session) -> bool:
    """Return whether a throttle of its client runs."""
    return session.throttle is not None and session.throttle.is_timed


def is_patient(session: Session) -> bool:
    """Return whether the broker's own answer to the next tracked request is awaited."""
    return session.is_patient


def mute_until(session: Session, until_ms: int) -> None:
    """Throttle its client until then, beside all policies."""
    plan = next(iter(session.plans.by_kind.values()), None)
    exchange = ObservedExchange(plan, 0, 0, 0, 0)
    mutes.throttle(session, exchange, until_ms, session.shared.now_ms)
