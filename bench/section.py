"""Sections of RESULTS.md that another program than `python -m bench` writes.

A section stands at the end of the file, between two comments that name it, so that either program can write anew what
is its own and leave the rest as it is.
"""

from __future__ import annotations

import re

_SECTION = re.compile(r"<!-- (?P<name>[a-z]+) -->\n.*?<!-- /(?P=name) -->\n", re.DOTALL)


def keep_sections(old: str, new: str) -> str:
    """The new text, with every section that the old one had."""
    return "\n".join([new, *(found[0] for found in _SECTION.finditer(old))])


def put_section(text: str, name: str, section: str) -> str:
    """The text with this section in it, in place of the one of that name if there was one."""
    written = f"<!-- {name} -->\n{section.strip()}\n<!-- /{name} -->\n"
    for found in _SECTION.finditer(text):
        if found["name"] == name:
            return text[: found.start()] + written + text[found.end() :]
    return f"{text}\n{written}" if text else written
