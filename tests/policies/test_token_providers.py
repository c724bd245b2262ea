"""Plug-ins that get tokens are found by name or path, and each mistake is named by its key."""

from typing import Any, Literal

import msgspec
import pytest

from policies import token_providers
from policies.api import PolicyConfigError
from policies.token_providers import make_provider
from policies.tokens import Token, TokenProvider

HERE = __name__
PATH = "upstream.sasl"


class GoodConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    kind: Literal["a", "b"]
    size: int = 1


class Good(TokenProvider):
    Config = GoodConfig

    def token(self) -> Token:
        return Token("a.b.c", 900)


class Bare(TokenProvider): ...


class Picky(TokenProvider):
    def __init__(self, config: object) -> None:
        raise PolicyConfigError("kind", "no such kind")


class Broken(TokenProvider):
    def __init__(self, config: object) -> None:
        raise SystemExit(3)


@pytest.fixture(autouse=True)
def points(monkeypatch: pytest.MonkeyPatch) -> None:
    """The classes of this module, as entry points: the module has no name of its own to import."""
    from importlib.metadata import EntryPoint  # noqa: PLC0415 - for this fixture only

    class Point(EntryPoint):
        def load(self) -> Any:
            if self.attr not in globals():
                raise ImportError(self.value)
            return globals()[self.attr]

    found = {
        name: Point(name, f"here:{name}", token_providers.GROUP)
        for name in ("Good", "Bare", "Picky", "Broken", "Gone", "HERE")
    }
    monkeypatch.setattr(token_providers, "entry_points_by_name", lambda _: found)


def problem(use: str, **options: object) -> str:
    """Return the only problem as text."""
    made = make_provider(use, options, PATH)
    assert isinstance(made, list)
    (only,) = made
    return str(only)


def test_a_provider_gets_its_settings() -> None:
    """As the struct that it names."""
    made = make_provider("Good", {"kind": "b"}, PATH)
    assert isinstance(made, Good)
    assert made.config == GoodConfig("b")
    assert made.token() == ("a.b.c", 900)
    assert isinstance(make_provider("Bare", {}, PATH), Bare)


def test_mistakes_are_named() -> None:
    """By the path of the key, what was expected, and the nearest."""
    assert problem("Goood", kind="a").startswith("upstream.sasl.token_provider: found 'Goood'")
    assert problem("Goood").endswith("did you mean Good?")
    assert problem("Good", kind="c").startswith("upstream.sasl.token_options.kind: found 'c'")
    assert "did you mean size?" in problem("Good", kind="a", sizes=3)
    assert problem("Bare", kind="a").startswith("upstream.sasl.token_options.kind: ")
    assert problem("Picky") == "upstream.sasl.token_options.kind: no such kind"
    assert "cannot be made: SystemExit: 3" in problem("Broken")
    assert "cannot be imported: ImportError" in problem("Gone")
    assert "expected a TokenProvider" in problem("HERE")


def test_a_path_that_is_none_is_named() -> None:
    """A module that is not there is the reason."""
    assert "ModuleNotFoundError" in problem("nowhere.at_all:Provider")


def test_a_token_shows_itself_nowhere() -> None:
    """In a log or a traceback it is its lifetime alone."""
    assert repr(Token("canary", 900)) == f"{Token('canary', 900)}" == "Token(..., 900)"


def test_a_provider_without_a_token_says_so() -> None:
    """Its author has forgotten the method."""
    with pytest.raises(NotImplementedError):
        Bare(None).token()
