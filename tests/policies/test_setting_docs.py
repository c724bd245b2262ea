"""The settings of a policy for people."""

from typing import Annotated, Literal

import msgspec

from policies.discovery import available
from policies.setting_docs import SettingDoc, first_sentence, setting_docs


class Rule(msgspec.Struct, frozen=True):
    """One rule."""

    topic: str
    """A topic's name. It may
    be long."""


class Base(msgspec.Struct, frozen=True):
    """Settings that others share."""

    shared: bool = False
    """Of the base."""


class Everything(Base, frozen=True, kw_only=True):
    """Every kind of setting."""

    rules: tuple[Rule, ...] = ()
    """The rules."""
    level: Annotated[int, msgspec.Meta(ge=1, le=9, description="From the type.")] = 3
    """Not shown: the type has a description."""
    kind: Literal["a", "b"] = msgspec.field(default="a", name="sort")
    wanted: str


def test_each_setting_has_its_name_type_default_and_meaning() -> None:
    """Fields of a base class and keys of a list's items are settings, too."""
    assert setting_docs(Everything) == [
        SettingDoc("shared", "true or false", "false", "Of the base."),
        SettingDoc("rules", "a list, each a mapping", "none", "The rules."),
        SettingDoc("rules[].topic", "a text", "required", "A topic's name. It may be long."),
        SettingDoc("level", "an integer from 1 to 9", "3", "From the type."),
        SettingDoc("sort", "one of a, b", "a", ""),
        SettingDoc("wanted", "a text", "required", ""),
    ]


def test_a_class_without_source_has_settings_without_meanings() -> None:
    """As in a compiled wheel: nothing is raised."""
    made = msgspec.defstruct("Made", [("level", int, 3)])

    assert setting_docs(made) == [SettingDoc("level", "an integer", "3", "")]


def test_a_first_sentence_is_one_line() -> None:
    """Without its full stop, and empty without a docstring."""
    assert first_sentence("Does one\n    thing. And another.") == "Does one thing"
    assert first_sentence(None) == ""


def test_every_setting_of_a_built_in_policy_has_a_meaning() -> None:
    """A user who lists them learns what each is for."""
    silent = [
        f"{name}.{each.name}"
        for name, kind in available().items()
        for each in setting_docs(kind.Config)
        if not each.meaning
    ]

    assert not silent
