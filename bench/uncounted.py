"""The fast loops without what they count: the yardstick for what counting costs.

Rules: made of the very source of `proxy.core.session` at the time of the bench, with the statements named here taken
out, so that nothing else differs. A statement that is not found any more ends the bench: it would measure nothing.
"""

from __future__ import annotations

import ast
import inspect
from typing import TYPE_CHECKING

from bench.build import BenchError
from proxy.core import session as counted

if TYPE_CHECKING:
    from proxy.core.session import Session

STATEMENTS = {
    "from_client": ("count += 1",),
    "from_broker": (
        "now_us = self.engine.now_us",
        "self.usage.response_bytes += pos - begun",
        "took_us = now_us - exchange.arrived_us",
    ),
}
"""Taken out of these functions."""
TESTS = {"from_client": ("count",), "from_broker": ("took_us < plan.fine_us",)}
"""And the `if` statements that ask for this, whole."""


class _Uncount(ast.NodeTransformer):
    def __init__(self, statements: tuple[str, ...], tests: tuple[str, ...]) -> None:
        self._statements = {ast.dump(ast.parse(each).body[0]): each for each in statements}
        self._tests = {ast.dump(ast.parse(each, mode="eval").body): each for each in tests}
        self.left = {*statements, *tests}

    def visit(self, node: ast.AST) -> ast.AST | None:
        found = self._statements.get(ast.dump(node)) if isinstance(node, ast.stmt) else None
        if isinstance(node, ast.If):
            found = self._tests.get(ast.dump(node.test))
        if found is not None:
            self.left.discard(found)
            return None
        return self.generic_visit(node)


def uncounted() -> type[Session]:
    """A Session that counts neither requests nor bytes nor time in its fast loops."""
    tree = ast.parse(inspect.getsource(counted))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name in STATEMENTS:
            taken = _Uncount(STATEMENTS[node.name], TESTS[node.name])
            taken.visit(node)
            if taken.left:
                raise BenchError(f"{node.name} has no more: {', '.join(sorted(taken.left))}")
    names: dict[str, object] = {"__name__": counted.__name__}
    exec(compile(ast.fix_missing_locations(tree), counted.__file__, "exec"), names)  # noqa: S102 - our own source
    made = names["Session"]
    assert isinstance(made, type)
    return made
