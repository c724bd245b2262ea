"""The masks of the poll set, which are epoll's, and what `Endpoint.expect` has besides. In the compiled build these are
C constants.
"""

from __future__ import annotations

from typing import Final

IN: Final = 1
OUT: Final = 4
ERR: Final = 8
HUP: Final = 16
RDHUP: Final = 0x2000
"""The peer has closed its side, whether or not the socket is read. Only epoll reports it."""

EARLY: Final = 1 << 20
"""In `expect` only: the client's next event is slow; in a throttle it is early."""
SLOWED: Final = 1 << 21
"""In `expect` only: each event is slow, because the other side did not take all bytes and has not more room yet, or
because reads under TLS are small and may leave decrypted bytes."""
LINGERING: Final = -1
"""`expect` of a side whose bytes are discarded: all of its events are slow."""
NO_EVENT: Final = -2
"""Not a mask: no event equals it."""
