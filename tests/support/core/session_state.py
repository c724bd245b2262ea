"""Read the state of a session from its parts, which are made when they are needed."""

from proxy.core.session.exchange import ObservedExchange
from proxy.core.session.session import Session


def is_unusual(session: Session) -> bool:
    """Return whether its requests take the general path."""
    return session.mutes is not None and session.mutes.unusual


def is_throttled(session: Session) -> bool:
    """Return whether a throttle of its client runs."""
    return session.mutes is not None and session.mutes.is_throttled


def is_patient(session: Session) -> bool:
    """Return whether the broker's own answer to the next tracked request is awaited."""
    return session.waits is not None and session.waits.patient


def mute_until(session: Session, until_ms: int) -> None:
    """Throttle its client until then, beside all policies."""
    plan = next(iter(session.plans.by_kind.values()), None)
    exchange = ObservedExchange(plan, 0, 0, 0, 0)
    session._mutes_now().throttle(exchange, until_ms, session.shared.now_ms)
