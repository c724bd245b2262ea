"""The sections of RESULTS.md: one for what all cases share, one for each case, so that one alone can be run again."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from bench.report import goal_table, table
from bench.section import put_section

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.memory.figures import Case

_PATH: Final = re.compile(r"(?<![\w.])/(?:[\w.+-]+/)+")
NAME: Final = "memory"
HEAD: Final = """\
## What Sluice may hold

Made by `make bench-memory`: the running proxy before a real Apache Kafka of one broker, everything on one machine. \
*Whole* means that a policy wants every Produce whole before it decides, so that each is kept and the pool has work \
to do; *streaming* means that nobody does, and the bytes pass through. Resident memory is the kernel's own mark of \
the most (VmHWM) since the load began; the base is what was resident just before, with every connection open and one \
request answered on each. It may be a tenth above base and bound."""


def with_cases(text: str, cases: Sequence[Case], facts: dict[str, str]) -> str:
    """The text of RESULTS.md with these cases in it; others that it has stay as they are."""
    text = put_section(text, NAME, HEAD)
    for case in cases:
        text = put_section(text, NAME + case.name, section(case, facts))
    return text


def section(case: Case, facts: dict[str, str]) -> str:
    """One case: goals, figures, what was left out, and where it was taken."""
    parts = [f"### {case.title}", case.law]
    if case.broken:
        parts.append(f"**Came to no end:** {_plain(case.broken)}")
    if case.goals:
        parts.append(goal_table(case.goals))
    if case.rows:
        parts.append(table(case.heads, case.rows))
    if case.said:
        parts.append(f"```text\n{_PATH.sub('', case.said).strip()}\n```")
    if case.left_out:
        rows = [[what, _plain(why)] for what, why in case.left_out.items()]
        parts.append(table(["left out", "reason"], rows))
    parts.append("; ".join(f"{key} {value}" for key, value in facts.items()) + ".")
    return "\n\n".join(parts)


def _plain(text: str) -> str:
    """One line for a table, without the folders of this machine."""
    return _PATH.sub("", " ".join(text.split())).replace("|", "/")
