"""Names and figures as a page shows them.

Rules:
- Clients choose their names. A label has no control or direction characters, a bounded width and no second meaning:
  two names never have the same label.
- Figures are short: three digits, thousands apart, with their unit beside them.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final
from unicodedata import bidirectional, east_asian_width

from policies.escaping import escaped

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pipeline.report.facts import ClientName

NO_NAME: Final = "(no name)"
SPOKEN_COLUMNS: Final = 40
_ISOLATE, _END = "\u2068", "\u2069"
_MINUTE_MS, _DAY_MS = 60_000, 86_400_000


def width(text: str) -> int:
    """Return how many columns of a fixed-width font the text takes: wide and full-width characters take two."""
    return sum(2 if east_asian_width(each) in "WF" else 1 for each in text)


def shortened(text: str, columns: int) -> str:
    """Return the text, cut in its middle so that it takes no more columns than given."""
    if width(text) <= columns:
        return text
    tail = ""
    for each in reversed(text[-columns:]):
        if width(tail) + width(each) > (columns - 1) // 3:
            break
        tail = each + tail
    head = ""
    for each in text[:columns]:
        if width(head) + width(each) > columns - 1 - width(tail):
            break
        head += each
    return f"{head}…{tail}"


def spoken(name: str) -> str:
    """Return the name as part of a sentence, whose direction it does not change."""
    label = shortened(escaped(name), SPOKEN_COLUMNS) or NO_NAME
    is_foreign = any(bidirectional(each) in ("R", "AL", "AN") for each in label)
    return f"{_ISOLATE}{label}{_END}" if is_foreign else label


def without_isolates(sentence: str) -> str:
    """Return a sentence with spoken names for a terminal, which shows no marks of direction."""
    return sentence.replace(_ISOLATE, "").replace(_END, "")


def labels_of(names: Iterable[str], columns: int) -> dict[str, str]:
    """Return a label of each name, all different."""
    found: dict[str, str] = {}
    taken: set[str] = set()
    for name in dict.fromkeys(names):
        whole = escaped(name) or NO_NAME
        label, number = shortened(whole, columns), 2
        while label in taken:
            mark = f" ({number})"
            label, number = shortened(whole, columns - len(mark)) + mark, number + 1
        taken.add(label)
        found[name] = label
    return found


def client_names(clients: Iterable[ClientName]) -> dict[ClientName, str]:
    """Return a name of each client: its user and its client id, or the only one of them that tells clients apart."""
    every = list(dict.fromkeys(clients))
    users, ids = {each.user for each in every}, {each.client_id for each in every}
    if len(users) == 1 and len(ids) == len(every) > 1:
        return {each: each.client_id for each in every}
    if len(ids) == 1 and len(users) == len(every) > 1:
        return {each: each.user for each in every}
    return {each: " / ".join(part for part in each if part) for each in every}


def count(value: float) -> str:
    """Return a whole number with its thousands apart; from a million on in millions."""
    if value >= 999_500_000:
        return f"{value / 1e9:,.3g} billion"
    return f"{value / 1e6:.3g} million" if value >= 999_500 else f"{value:,.0f}"


def figure(value: float) -> str:
    """Return a number with three digits, at most two of them after the point."""
    if value >= 100:
        return f"{float(f'{value:.3g}'):,.0f}"
    return f"{value:.2f}".rstrip("0").rstrip(".") if value < 1 else f"{value:.3g}"


def percent(share: float) -> str:
    """Return a share in percent. More than nothing is never shown as 0 %, less than all never as 100 %."""
    if 0 < share < 0.001:
        return "under 0.1 %"
    if 0.995 <= share < 1:
        return "over 99 %"
    return f"{share * 100:.1f} %" if 0 < share < 0.0995 else f"{share * 100:.0f} %"


def duration(ms: float) -> str:
    """Return a duration in the unit that suits it."""
    if ms < 1:
        return f"{figure(ms * 1000)} µs"
    if ms < 1000:
        return f"{figure(ms)} ms"
    if ms < 120_000:
        return f"{figure(ms / 1000)} s"
    return f"{figure(ms / 60_000)} min" if ms < 7_200_000 else f"{figure(ms / 3_600_000)} h"


def period(start_ms: int, end_ms: int) -> str:
    """Return both ends in UTC."""
    start, end = (datetime.fromtimestamp(each / 1000, UTC) for each in (start_ms, end_ms))
    clock = "%H:%M:%S" if end_ms - start_ms < 60 * _MINUTE_MS else "%H:%M"
    last = f"{end:{clock}}" if start.date() == end.date() else f"{end:%d %b %Y, {clock}}"
    return f"{start:%d %b %Y, {clock}} to {last} UTC"


def time_format(start_ms: int, end_ms: int) -> str:
    """Return the format of a time axis, in d3's notation."""
    length_ms = end_ms - start_ms
    return (
        "%H:%M:%S"
        if length_ms < 10 * _MINUTE_MS
        else "%H:%M"
        if length_ms <= 2 * _DAY_MS
        else "%d %b"
    )
