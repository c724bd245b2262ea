"""The users file as it lies on the disk: what is refused before and after it is read."""

from pathlib import Path

import pytest

from proxy.config import users_file
from proxy.config.small_files import FileError
from proxy.config.users_file import load_users
from tests.support.shell.sasl_service import credentials


def test_the_users_of_a_file_are_loaded(tmp_path: Path) -> None:
    """In its order."""
    lines = [f"{name} {credential}" for name, credential in credentials()]
    (tmp_path / "users").write_text("# two\n" + "\n".join(lines))
    assert list(load_users(str(tmp_path / "users"))) == ["alice", "bob"]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"# ok\nalice secret", "line 2: expected NAME MECHANISM="),
        (b"# \xff", "which is not UTF-8 text"),
        (b"#" * 2_000, "more than 1000 bytes"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, why: str
) -> None:
    """The error names the file and says what is expected, and has nothing of its content."""
    monkeypatch.setattr(users_file, "MAX_BYTES", 1_000)
    path = tmp_path / "users"
    path.write_bytes(content)
    with pytest.raises(FileError, match=why) as refused:
        load_users(str(path))
    assert str(path) in refused.value.found
    assert "secret" not in refused.value.found
    assert "sluice users add" in refused.value.expected
