"""Passwords, tokens and client secrets in memory. Where they come from is the caller's matter."""

from __future__ import annotations

import hmac
from typing import NoReturn


class Secret:
    """A text that shows itself nowhere: not when printed, formatted or logged, and it cannot be pickled or copied."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the text. Pass it on at once; do not keep it."""
        return self._text

    def __repr__(self) -> str:
        return "Secret(...)"

    def __format__(self, spec: str) -> str:
        return repr(self)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(self._text.encode(), other._text.encode())

    __hash__ = None  # type: ignore[assignment] # a hash would tell two texts apart

    def __reduce_ex__(self, _protocol: object) -> NoReturn:
        raise TypeError("a secret cannot be pickled or copied")
