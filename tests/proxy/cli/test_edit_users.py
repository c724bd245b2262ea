"""`sluice users`: what it writes, what it refuses, and that no password is shown or left anywhere."""

from __future__ import annotations

import os
import pty
import stat
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from proxy.cli.main import main
from proxy.config.users_file import load_users
from proxy.core.auth.stored_users import DEFAULT_ITERATIONS, new_credential
from proxy.core.auth.users_text import has_stand_in_key

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

PASSWORD = "correct horse, battery"  # noqa: S105 - of a test


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "users"


def users(*words: object, given: str = "") -> Result:
    return CliRunner().invoke(main, ["users", *map(str, words)], input=given)


def test_an_added_user_can_authenticate(file: Path) -> None:
    """By the keys of the password from standard input; its line break is not part of it."""
    added = users("add", "alice", "--file", file, given=f"{PASSWORD}\n")
    assert (added.exit_code, added.output) == (0, "Added alice.\n")
    (found,) = load_users(str(file)).credentials("alice")
    assert found.iterations == DEFAULT_ITERATIONS
    assert found == new_credential(
        found.mechanism, PASSWORD.encode(), found.salt, DEFAULT_ITERATIONS
    )
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert PASSWORD not in file.read_text()
    assert has_stand_in_key(file.read_text())


def test_both_mechanisms_and_the_iterations_can_be_chosen(file: Path, tmp_path: Path) -> None:
    """The password may come from a file."""
    secret = tmp_path / "secret"
    secret.write_text(PASSWORD)
    options = ("--mechanism", "SCRAM-SHA-256", "--mechanism", "SCRAM-SHA-512")
    more = ("--iterations", 4096, "--password-file", secret)
    assert users("add", "bob", "-f", file, *options, *more).exit_code == 0
    listed = users("list", "-f", file)
    assert listed.output == "bob\tSCRAM-SHA-256 (4096), SCRAM-SHA-512 (4096)\n"


def test_a_second_add_replaces_the_password_and_nothing_else(file: Path) -> None:
    """Order, comments and other users stay; the salt is new each time."""
    users("add", "alice", "-f", file, given="1")
    users("add", "bob", "-f", file, given="1")
    file.write_text("# mine\n" + file.read_text())
    before = load_users(str(file))
    changed = users("add", "alice", "-f", file, given="1")
    assert changed.output == "Changed alice.\n"
    after = load_users(str(file))
    assert file.read_text().startswith("# mine\n# The users of Sluice")
    assert list(after) == ["alice", "bob"]
    assert after.credentials("bob") == before.credentials("bob")
    assert after.credentials("alice")[0].salt != before.credentials("alice")[0].salt


def test_a_removed_user_is_gone(file: Path) -> None:
    """The last one leaves a valid file; a second removal is refused."""
    users("add", "alice", "-f", file, given="1")
    assert users("remove", "alice", "-f", file).output == "Removed alice.\n"
    listed = users("list", "-f", file)
    assert (listed.exit_code, listed.output) == (0, "")
    again = users("remove", "alice", "-f", file)
    assert again.exit_code == 1
    assert "There is no user alice" in again.stderr


def test_the_access_of_a_group_stays(file: Path) -> None:
    """Sluice may run as another user of this group; other users lose their right to read."""
    users("add", "alice", "-f", file, given="1")
    file.chmod(0o644)
    users("add", "bob", "-f", file, given="1")
    assert stat.S_IMODE(file.stat().st_mode) == 0o640


def test_a_link_stays_a_link(file: Path, tmp_path: Path) -> None:
    """The file that it leads to is replaced."""
    users("add", "alice", "-f", file, given="1")
    link = tmp_path / "link"
    link.symlink_to(file)
    assert users("add", "bob", "-f", link, given="1").exit_code == 0
    assert link.is_symlink()
    assert list(load_users(str(file))) == ["alice", "bob"]


@pytest.mark.parametrize(
    "words",
    [
        ("add", "a b"),
        ("add", ""),
        ("add", "#a"),
        ("add", "alice", "--iterations", "4095"),
        ("add", "alice", "--mechanism", "PLAIN"),
        ("add", "alice", "--password", PASSWORD),
        ("add", "alice", PASSWORD),
        ("remove",),
    ],
)
def test_invalid_options_change_nothing(file: Path, words: tuple[str, ...]) -> None:
    """Exit code 2; a password is no argument."""
    refused = users(*words, "-f", file, given="secret")
    assert refused.exit_code == 2
    assert not file.exists()


@pytest.mark.parametrize("given", ["", "\n", "x" * 1025, "a\0b"])
def test_a_password_that_cannot_be_used_is_refused(file: Path, given: str) -> None:
    """Empty, too long, or with a character that PLAIN cannot send. The error does not repeat it."""
    refused = users("add", "alice", "-f", file, given=given)
    assert refused.exit_code == 2
    assert "expected 1..1024 bytes" in refused.stderr
    assert "xxx" not in refused.output
    assert not file.exists()


@pytest.mark.parametrize("command", [("add", "alice"), ("remove", "alice"), ("list",)])
def test_a_file_with_a_mistake_is_not_touched(file: Path, command: tuple[str, ...]) -> None:
    """Exit code 1, and the line's number; so a typing mistake is not made worse."""
    file.write_text("alice nonsense\n")
    refused = users(*command, "-f", file, given="1")
    assert refused.exit_code == 1
    assert "line 1: expected NAME MECHANISM=" in refused.stderr
    assert file.read_text() == "alice nonsense\n"


@pytest.mark.parametrize("command", [("remove", "alice"), ("list",)])
def test_a_missing_file_is_an_error(file: Path, command: tuple[str, ...]) -> None:
    """Only `add` creates one, and not its folder."""
    assert users(*command, "-f", file).exit_code == 1
    nowhere = users("add", "alice", "-f", file / "deeper" / "users", given="1")
    assert nowhere.exit_code == 1


def test_a_password_typed_at_a_terminal_is_not_echoed(file: Path) -> None:
    """It is asked for twice; nothing of it comes back."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "proxy", "users", "add", "alice", "-f", str(file)]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        said = b""
        for question in (b"Password: ", b"Repeat for confirmation: "):
            while not said.endswith(question):
                said += os.read(ours, 1024)
            os.write(ours, f"{PASSWORD}\n".encode())
        assert process.wait(60) == 0
        said += os.read(ours, 1024)
    os.close(ours)
    assert b"Added alice." in said
    assert PASSWORD.encode() not in said
    assert list(load_users(str(file))) == ["alice"]
