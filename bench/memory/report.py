"""The sections of RESULTS.md: a common one, and one for each case, so that a case can be measured alone."""

import re
from collections.abc import Sequence
from typing import Final

from bench.goals import goal_table
from bench.harness.markdown import facts_line, one_line, put_section, table
from bench.memory.figures import Case

_PATH: Final = re.compile(r"(?<![\w.])/(?:[\w.+-]+/)+")
NAME: Final = "memory"
HEAD: Final = """\
## Memory limits

Made by `make bench-memory`: Sluice in front of a real Apache Kafka of one broker, all on one machine. *Whole* means \
that a policy needs every Produce whole before it decides, so that each is buffered and charged to the pool. \
*Streaming* means that no policy does, and the bytes pass through. Resident memory is the kernel's peak (VmHWM) since \
the load began. The base is the resident memory just before, with every connection open and one request answered on \
each. The peak may exceed base and bound by a tenth."""


def with_cases(text: str, cases: Sequence[Case], facts: dict[str, str]) -> str:
    """Return the text of RESULTS.md with the sections of these cases replaced."""
    text = put_section(text, NAME, HEAD)
    for case in cases:
        text = put_section(text, NAME + case.name, section(case, facts))
    return text


def section(case: Case, facts: dict[str, str]) -> str:
    """Return a case's section: goals, figures, what was left out, and the machine."""
    parts = [f"### {case.title}", case.method]
    if case.error:
        parts.append(f"**Failed:** {_plain(case.error)}")
    if case.goals:
        parts.append(goal_table(case.goals))
    if case.rows:
        parts.append(table(case.heads, case.rows))
    if case.said:
        parts.append(f"```text\n{_PATH.sub('', case.said).strip()}\n```")
    if case.left_out:
        rows = [[what, _plain(reason)] for what, reason in case.left_out.items()]
        parts.append(table(["left out", "reason"], rows))
    parts.append(facts_line(facts))
    return "\n\n".join(parts)


def _plain(text: str) -> str:
    """Return one line for a table, without the folders of this machine."""
    return one_line(_PATH.sub("", text))
