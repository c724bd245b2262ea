"""A plug-in that gets tokens, for tests: it gives unsigned ones, or does what none should.

`use` is its name in the settings of a Sluice that was started with `variables`; each call is a line of the file.
"""

import os
import threading
import time
from pathlib import Path
from typing import Final, Literal

import msgspec

from policies.tokens import Token, TokenProvider
from tests.support.messages.sasl import unsigned_token

ROOT: Final = Path(__file__).resolve().parents[3]
USE: Final = "tests.support.plugins.token_maker:TokenMaker"
CANARY: Final = "canary-of-a-token"


class TokenMakerConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to do at each call."""

    file: str
    subject: str = "sluice"
    lifetime_s: float = 3600.0
    does: tuple[Literal["gives", "raises", "blocks", "exits", "lies"], ...] = ("gives",)
    """The last is what it does from then on."""


class TokenMaker(TokenProvider):
    """Gives tokens."""

    Config = TokenMakerConfig

    def __init__(self, config: TokenMakerConfig) -> None:
        super().__init__(config)
        self._config = config
        self._calls = 0

    def token(self) -> Token:
        """Note the call, and do what the settings say."""
        config, place = self._config, self._calls
        self._calls += 1
        with Path(config.file).open("a") as file:
            file.write("call\n")
        match config.does[min(place, len(config.does) - 1)]:
            case "raises":
                raise PermissionError(CANARY)
            case "blocks":
                threading.Event().wait()
            case "exits":
                raise SystemExit(CANARY)
            case "lies":
                return Token(CANARY, float("nan"))
        lives = int(config.lifetime_s)
        ends = int(time.time()) + lives  # a token tells whole seconds
        return Token(unsigned_token(config.subject, lives), ends - time.time())


def variables() -> dict[str, str]:
    """Return the variables of a process that finds the plug-in."""
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    return {"PYTHONPATH": os.pathsep.join(filter(None, paths))}


def calls(file: Path) -> int:
    """Return how often it was called."""
    return len(file.read_text().splitlines()) if file.exists() else 0
