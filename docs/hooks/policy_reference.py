"""The reference of the policy contract, from the source of `policies.api` and of the modules beside it."""

from __future__ import annotations

import ast
import inspect
import re
from importlib import import_module
from typing import TYPE_CHECKING

from policies import api, custom_metrics, host_tools, policy_log
from wire import reply_errors

if TYPE_CHECKING:
    from collections.abc import Iterator

SHOWN = {
    "HostTools",
    "PolicyCounter",
    "PolicyHistogram",
    "PolicyLog",
    "ReplyErrors",
    "TooManyCallsError",
}
"""The classes of other modules that an author sees."""
FIRST_ITEM = re.compile(r"(^(?!- ).+\n)(?=- )", re.MULTILINE)


def prose(docstring: str | None) -> str:
    """Return a docstring as Markdown: a list needs an empty line before its first item."""
    return FIRST_ITEM.sub(r"\1\n", inspect.cleandoc(docstring or "")) if docstring else ""


def text_of(node: ast.stmt | None) -> str | None:
    """Return the string that this statement consists of, else None."""
    if (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    ):
        return node.value.value
    return None


def documented(body: list[ast.stmt]) -> Iterator[tuple[ast.stmt, str]]:
    """Yield each statement with its documentation: its own docstring, or the string that follows it."""
    for node, after in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node, prose(ast.get_docstring(node))
        elif isinstance(node, ast.AnnAssign | ast.Assign):
            yield node, prose(text_of(after))


def code_of(node: ast.stmt) -> str | None:
    """Return how a public member is written: its signature or its assignment; None for a private one."""
    if isinstance(node, ast.FunctionDef):
        if node.name.startswith("_"):
            return None
        arguments = ast.unparse(node.args).removeprefix("self, ").removeprefix("self")
        is_property = any(ast.unparse(each) == "property" for each in node.decorator_list)
        returns = ast.unparse(node.returns) if node.returns else "None"
        return (
            f"{node.name}: {returns}" if is_property else f"{node.name}({arguments}) -> {returns}"
        )
    written = re.sub(r" = field\(default=([^,)]+).*\)$", r" = \1", ast.unparse(node))
    return None if written.startswith("_") else written


def members(node: ast.ClassDef) -> str:
    """Return a table of a class's public fields and methods; empty if there are none."""
    rows = [
        f"| `{code}` | {' '.join(text.split())} |"
        for member, text in documented(node.body)
        if (code := code_of(member))
    ]
    return "\n".join(["| member | what it is |", "|---|---|", *rows, ""]) if rows else ""


def re_exported(node: ast.stmt) -> Iterator[tuple[ast.stmt, str]]:
    """Yield the definitions that `from module import Name as Name` brings to authors, with their documentation."""
    if not isinstance(node, ast.ImportFrom) or not node.module:
        return
    names = {each.name for each in node.names if each.asname == each.name}
    if names:
        tree = ast.parse(inspect.getsource(import_module(node.module)))
        for found, text in documented(tree.body):
            if getattr(found, "name", None) in names:
                yield found, text


def policy_reference() -> str:
    """Return a section for every public name of `policies.api`, those of other modules last, and for the tools."""
    tree = ast.parse(inspect.getsource(api))
    parts = [prose(ast.get_docstring(tree)) + "\n"]
    tools = [
        (node, text)
        for module in (reply_errors, host_tools, policy_log, custom_metrics)
        for node, text in documented(ast.parse(inspect.getsource(module)).body)
        if isinstance(node, ast.ClassDef) and node.name in SHOWN
    ]
    moved = [each for node in tree.body for each in re_exported(node)]
    for node, text in (*documented(tree.body), *moved, *tools):
        if isinstance(node, ast.ClassDef):
            bases = ", ".join(ast.unparse(each) for each in node.bases)
            parts.append(
                f"## {node.name}\n\n"
                + (f"`class {node.name}({bases})`\n\n" if bases else "")
                + text
                + "\n"
            )
            parts.append(members(node))
        elif code := code_of(node):
            parts.append(f"## {code.split(':')[0].split(' ')[0]}\n\n`{code}`\n\n{text}\n")
    return "\n".join(parts)
