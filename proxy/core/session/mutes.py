"""The mutes of a client: their reasons, and from which request on they hold. The throttle is in `throttled_channel`.

Rules:
- A client is muted between two requests, never inside one: until then the reason waits in `wanted`.
- `unusual` says that the fast loop must not begin a request by itself. Only this part and its base write it.
- Bytes read before a mute stay in the channel's `carry`, counted; they are handled in a later turn, after the
  last reason is removed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from proxy.core.session.channel import STOPS_PARSING, Mute
from proxy.core.session.throttled_channel import ThrottledChannel

if TYPE_CHECKING:
    from proxy.core.session.channel import Channel
    from proxy.core.session.shared_state import SharedState


class _Muted(Protocol):
    """A session whose client may be muted."""

    @property
    def client(self) -> Channel: ...
    @property
    def mutes(self) -> Mutes | None: ...
    @property
    def shared(self) -> SharedState: ...


class Mutes(ThrottledChannel):
    """The mutes of one client. Made with the first mute."""

    __slots__ = ()

    # -- reasons ---------------------------------------------------------------------------------

    def mute_now(self, reason: int) -> None:
        """Mute the client at once: none of its requests is passing, or this one may be interrupted."""
        self._hold(reason)
        self.unusual = True

    def mute_after_request(self, reason: int) -> None:
        """Mute the client from the end of the request that is passing."""
        if self._owner.is_inside_request:
            self.wanted |= reason
        else:
            self._hold(reason)
        self.unusual = True
        self._owner.call_attention()

    def on_request_boundary(self) -> None:
        """Mute the client between two requests, for the reasons in `wanted`."""
        self._hold(self.wanted)
        self.wanted = 0
        self.look_again()
        self._owner.schedule()

    def unmute(self, reason: int) -> None:
        """Remove a reason; after the last one the bytes that were read before the mute are handled in a later turn."""
        self.wanted &= ~reason
        client = self._client
        held = client.muted & reason
        if not held:
            self.look_again()
            return
        owner = self._owner
        if held == Mute.THROTTLED:  # as in `count_muted_time`: nearly always a throttle ends here
            usage = owner.usage
            usage.blocked.change(-1, self._shared.now_ms)
        else:
            owner.count_muted_time(held, -1)
        muted = client.muted = client.muted & ~reason
        is_kept_off = owner.keeps_off_fast_loop
        if not muted & STOPS_PARSING and (client.carry or (is_kept_off and owner.has_pending)):
            client.muted = muted | Mute.PACED
        self._turns.add(owner)
        self.unusual = bool(self.wanted or muted & STOPS_PARSING or is_kept_off)

    def look_again(self) -> None:
        """Set `unusual` if requests must not take the fast loop now, else clear it."""
        self.unusual = bool(
            self.wanted or self._client.muted & STOPS_PARSING or self._owner.keeps_off_fast_loop
        )

    def _hold(self, reason: int) -> None:
        self._owner.count_muted_time(reason & ~self._client.muted, 1)
        self._client.mute(reason)


def mute_reasons(owner: _Muted) -> int:
    """Return why its client is muted, or would be if it sent something now (bits of `Mute`)."""
    mutes = owner.mutes
    if mutes is not None and mutes.is_deferred and mutes.lasts(owner.shared.now_ms):
        return owner.client.muted | Mute.THROTTLED
    return owner.client.muted
