"""The sources of plug-ins: a changed package is imported again, a broken one changes nothing, ours never are."""

import gc
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from policies.plugin_sources import PluginSources, any_left, note_replaced


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of two modules, one of which uses the other."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    folder = tmp_path / "followed_plugin"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "words.py").write_text("WORD = 'one'\n")
    (folder / "main.py").write_text("from followed_plugin.words import WORD\n")
    yield folder
    for name in [each for each in sys.modules if each.startswith("followed_plugin")]:
        del sys.modules[name]


def load(sources: PluginSources) -> object:
    return sources.load("followed_plugin.main", lambda: import_module("followed_plugin.main"))


def test_a_changed_package_is_imported_again(package: Path) -> None:
    """Also if only a module that it uses has changed; the old modules stay as they are."""
    sources = PluginSources()
    sources.follow()
    first = load(sources)
    assert load(sources) is first
    (package / "words.py").write_text("WORD = 'two'\n")
    second = load(sources)

    assert (first.WORD, second.WORD) == ("one", "two")
    assert set(sources.digests("followed_plugin.main")) == {
        str(package / name) for name in ("__init__.py", "main.py", "words.py")
    }


def test_a_broken_package_keeps_the_old_modules(package: Path) -> None:
    """The exception is the author's; the next good version is imported."""
    sources = PluginSources()
    sources.follow()
    first = load(sources)
    (package / "words.py").write_text("WORD = ")
    with pytest.raises(SyntaxError):
        load(sources)
    assert sys.modules["followed_plugin.main"] is first
    (package / "words.py").write_text("WORD = 'three'\n")
    assert load(sources).WORD == "three"


def test_nothing_is_followed_unless_asked(package: Path) -> None:
    """In production a changed file has no effect, and no digest is made."""
    sources = PluginSources()
    first = load(sources)
    (package / "words.py").write_text("WORD = 'two'\n")
    assert load(sources) is first
    assert sources.digests("followed_plugin.main") == {}


def test_sluices_own_modules_are_not_followed() -> None:
    """They run."""
    sources = PluginSources()
    sources.follow()
    before = import_module("policies.api")
    for name in ("policies.limits", "sluice"):
        sources.load(name, lambda name=name: import_module(name))
        assert sources.digests(name) == {}
    assert sys.modules["policies.api"] is before


def test_a_module_is_left_until_it_is_gone():
    """It refers to itself, as the functions of a module do."""
    module = ModuleType("replaced")
    vars(module)["itself"] = module
    note_replaced(module)
    assert any_left()
    del module
    gc.collect()
    assert not any_left()
