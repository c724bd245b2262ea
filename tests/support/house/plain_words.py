"""Turns of speech that are banned from the project, because a reader has to decode them. One regex for each.

- Identifiers are read too: `_` separates words.
- A question ("Who is throttled?") and a list of steps ("Who: ...") are not headless subjects.
"""

import re

_BEGIN = r"(?:^|[.!?|] |^ *[-*#] |\"\"\"|# )"
"""Where a sentence begins: on a line, in a cell, in an item, in a docstring or in a comment."""
_W, _V = "(?<![A-Za-z])", "(?![A-Za-z])"

BANNED: dict[str, re.Pattern[str]] = {
    words: re.compile(pattern, re.MULTILINE)
    for words, pattern in {
        "headless who": rf"{_BEGIN}Who\b(?![^.?!|\n]*\?|:)",
        "headless what": rf"{_BEGIN}What\b(?![^.?!|\n]*\?)",
        "whoever, whatever": rf"{_W}[Ww]h(?:o(?:m|so)?|at)ever{_V}",
        "nobody, somebody, everybody": rf"{_W}(?:[Nn]o|[Ss]ome|[Ee]very)body{_V}",
        "goes on": rf"{_W}(?:go|goes|going|gone|went)[ _]on{_V}",
        "anew": rf"{_W}[Aa]new{_V}",
        "let go": rf"{_W}[Ll]et(?:s|ting)?[ _]go{_V}",
        "behind for after": rf"{_W}[Bb]ehind (?:it|them|their|its|that|what|those|this|good|"
        rf"the (?:first|last|next)){_V}",
        "was wanted": rf"{_W}(?:was|were|is|are) wanted{_V}",
    }.items()
}


def count(text: str) -> dict[str, int]:
    """Return how often each banned turn stands in the text; those that do not are left out."""
    found = {words: len(pattern.findall(text)) for words, pattern in BANNED.items()}
    return {words: n for words, n in found.items() if n}
