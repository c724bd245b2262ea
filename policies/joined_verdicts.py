"""What several policies say about one request, joined into one verdict.

Rules:
- Patches add up in the order of the chain; of several new bodies the last counts.
- A request that one policy exempts is exempt, whatever the others change in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.api import EXEMPT, FORWARD, Forward

if TYPE_CHECKING:
    from policies.api import Patch


def join(first: Forward, second: Forward) -> Forward:
    """Return the Forward that does what both say. Where nothing is changed it is FORWARD or EXEMPT, the very object."""
    body = first.body if second.body is None else second.body
    return _forward(first.patches + second.patches, body, exempt=first.exempt or second.exempt)


def without_exemption(verdict: Forward) -> Forward:
    """Return the Forward that changes the same and exempts nothing."""
    return _forward(verdict.patches, verdict.body, exempt=False)


def _forward(patches: tuple[Patch, ...], body: bytes | None, *, exempt: bool) -> Forward:
    """Return the Forward with these fields; FORWARD and EXEMPT where nothing is changed."""
    if patches or body is not None:
        return Forward(patches, body, exempt)
    return EXEMPT if exempt else FORWARD
