"""Policies of `policies_path`: one file each, found after entry points, reloaded when changed, refused when unsafe."""

import os
from pathlib import Path

import pytest

from policies import registry
from policies.policy_files import PolicyFileError, load_file, policy_files
from policies.registry import PolicyEntry
from proxy.shell import files

SOURCE = '''
"""A policy."""
import msgspec
from policies.api import FORWARD, Policy


class GuardConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One setting."""

    word: str = "{word}"


class Guard(Policy):
    """Guards."""

    Config = GuardConfig

    def on_request(self, request, peer, now_ms):
        return FORWARD
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A directory with the policy `guard`."""
    (tmp_path / "guard.py").write_text(SOURCE.replace("{word}", "one"))
    return tmp_path


def problems(use: str, *folders: Path) -> list[str]:
    return [
        str(each)
        for each in registry.inspect(
            [PolicyEntry(use=use)], files, directories=tuple(map(str, folders))
        )
    ]


@pytest.mark.parametrize("use", ["guard", "guard:Guard"])
def test_a_file_is_a_policy(folder: Path, use: str) -> None:
    """By the name of the file, or with the class; its settings are checked as any policy's."""
    entry = PolicyEntry(use=use, config={"word": "two"})
    assert registry.inspect([entry], files, keep=True, directories=(str(folder),)) == []
    assert list(registry.digests([entry])) == [str(folder / "guard.py")]
    registry.discard([entry])

    wrong = PolicyEntry(use=use, config={"wird": "two"})
    (problem,) = registry.inspect([wrong], files, directories=(str(folder),))
    assert (problem.path, problem.nearest) == ("policies[0].config.wird", "word")


def test_an_unchanged_file_keeps_its_class_and_a_changed_one_is_new(folder: Path) -> None:
    """Even a change that keeps size and time of the file."""
    path = str(folder / "guard.py")
    first = load_file(path, "", files)
    at = Path(path).stat()
    Path(path).write_text(SOURCE.replace("{word}", "six"))
    os.utime(path, ns=(at.st_atime_ns, at.st_mtime_ns))
    second = load_file(path, "", files)

    assert second.digest != first.digest
    assert (first.kind.Config().word, second.kind.Config().word) == ("one", "six")
    assert load_file(path, "", files).kind is second.kind


@pytest.mark.parametrize(
    ("source", "line", "words"),
    [
        ("x = 1\nbroken(\n", 2, "SyntaxError"),
        ("\n\nimport no_such_module\n", 3, "No module named 'no_such_module'"),
        ("def f():\n    1 / 0\nf()\n", 2, "ZeroDivisionError"),
        ("raise SystemExit(3)\n", 1, "SystemExit: 3"),
    ],
)
def test_a_file_that_cannot_be_imported_is_named_with_its_line(
    folder: Path, source: str, line: int, words: str
) -> None:
    """And the classes of the file before it stay in use."""
    before = load_file(str(folder / "guard.py"), "", files)
    (folder / "guard.py").write_text(source)

    (problem,) = problems("guard", folder)

    assert f"{folder}/guard.py:{line} cannot be imported" in problem
    assert words in problem
    assert problem.startswith("policies[0].use: ")
    assert before.kind.Config().word == "one"


def test_a_file_has_one_policy_or_the_entry_names_one(folder: Path) -> None:
    """Imported classes do not count."""
    two = SOURCE + "\n\nclass Other(Guard):\n    pass\n"
    (folder / "guard.py").write_text(two)
    (folder / "empty.py").write_text("from policies.limits import Limits\n")

    assert (
        "has 2 policies with a Config (Guard, Other), expected one" in problems("guard", folder)[0]
    )
    assert problems("guard:Other", folder) == []
    assert "has no policy Third, only Guard, Other" in problems("guard:Third", folder)[0]
    assert "has 0 policies" in problems("empty", folder)[0]


def test_a_name_in_two_places_is_an_error_that_names_both(folder: Path, tmp_path_factory) -> None:
    """An entry point and a file, or two files."""
    other = tmp_path_factory.mktemp("other")
    (other / "guard.py").write_text(SOURCE)
    (other / "quota.py").write_text(SOURCE)

    assert f"{folder}/guard.py and {other}/guard.py" in problems("guard", folder, other)[0]
    assert (
        f"{other}/quota.py and the entry point quota of kafka-sluice" in problems("quota", other)[0]
    )
    assert problems("limits", folder, other) == []


def test_what_any_user_may_write_is_refused(folder: Path) -> None:
    """The file and the directory."""
    (folder / "guard.py").chmod(0o666)
    assert "guard.py may be written by any user" in problems("guard", folder)[0]
    (folder / "guard.py").chmod(0o644)
    folder.chmod(0o777)
    assert problems("limits", folder)[0].startswith(
        f"policies_path[0]: {folder} cannot be trusted: {folder} may be written by any user"
    )


def test_what_cannot_be_read_is_named(folder: Path) -> None:
    """A directory that does not exist, and a FIFO, which would block."""
    assert "policies_path[0]: /no/such cannot be read" in problems("limits", Path("/no/such"))[0]
    os.mkfifo(folder / "pipe.py", 0o600)
    assert "not a regular file" in problems("pipe", folder)[0]
    (folder / "large.py").write_bytes(b"#" * ((1 << 20) + 1))
    assert "more than 1048576 bytes" in problems("large", folder)[0]


def test_only_files_with_the_name_of_a_module_count(folder: Path) -> None:
    """No hidden and private files, and no other names."""
    for name in ("_private.py", ".hidden.py", "two-words.py", "notes.txt"):
        (folder / name).write_text("raise SystemExit")
    assert list(policy_files([str(folder)], files)) == ["guard"]
    with pytest.raises(PolicyFileError, match="cannot be read"):
        load_file(str(folder / "gone.py"), "", files)


def test_an_unknown_name_is_compared_with_files_too(folder: Path) -> None:
    """The nearest name may be that of a file."""
    assert "did you mean guard?" in problems("gard", folder)[0]
