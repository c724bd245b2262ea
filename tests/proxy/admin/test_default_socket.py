"""The default admin socket: its path, its owner, and how the tools find it."""

import os
import stat
from pathlib import Path

import pytest

from proxy.admin import default_socket
from proxy.admin.sockets import bind_unix


@pytest.fixture
def environ(tmp_path, monkeypatch):
    monkeypatch.setattr(default_socket, "ROOT_FOLDER", tmp_path / "none" / "sluice")
    (tmp_path / "run").mkdir()
    (tmp_path / "tmp").mkdir()
    return {"XDG_RUNTIME_DIR": str(tmp_path / "run"), "TMPDIR": str(tmp_path / "tmp")}


def test_only_its_user_can_open_the_socket_and_its_folder(environ):
    """The modes are 0700 and 0600; closing removes the socket file."""
    made = default_socket.listen(19092, environ)
    assert made.path == f"{environ['XDG_RUNTIME_DIR']}/sluice/19092.sock"
    assert stat.S_IMODE(os.lstat(Path(made.path).parent).st_mode) == 0o700
    assert stat.S_IMODE(os.lstat(made.path).st_mode) == 0o600
    made.close()
    assert not os.path.lexists(made.path)


def test_every_running_sluice_of_this_user_is_found(environ):
    """It is found by its bootstrap port too; the socket of a crashed process is skipped, and replaced."""
    first, second = (default_socket.listen(port, environ) for port in (1, 2))
    assert default_socket.find(environ) == [first.path, second.path]
    assert default_socket.find(environ, 2) == [second.path]
    assert default_socket.find(environ, 3) == []
    first.listening.close()
    assert default_socket.find(environ) == [second.path]
    first = default_socket.listen(1, environ)
    assert default_socket.find(environ) == [first.path, second.path]
    first.close()
    second.close()


def test_a_second_sluice_with_the_same_port_does_not_replace_the_socket(environ):
    """It may listen at another address; it has no default socket."""
    first = default_socket.listen(1, environ)
    with pytest.raises(OSError, match="another process listens there"):
        default_socket.listen(1, environ)
    assert default_socket.find(environ) == [first.path]
    first.close()


def test_a_folder_that_other_users_can_open_is_not_used(environ):
    """Sluice uses the next folder, and its tools ignore this one."""
    folder = Path(environ["XDG_RUNTIME_DIR"]) / "sluice"
    folder.mkdir()
    folder.chmod(0o755)
    made = default_socket.listen(1, environ)
    assert made.path.startswith(environ["TMPDIR"])
    assert default_socket.find(environ) == [made.path]
    os.chmod(Path(made.path).parent, 0o770)  # noqa: PTH101, S103 - as beside it
    assert default_socket.find(environ) == []
    made.close()
    with pytest.raises(OSError, match=r"not a private folder of this user"):
        default_socket.listen(
            1, {"TMPDIR": environ["TMPDIR"]} | {"XDG_RUNTIME_DIR": environ["XDG_RUNTIME_DIR"]}
        )


def test_a_link_to_a_folder_is_not_used(environ, tmp_path):
    """Any user who may write to the temporary folder could have put it there."""
    target = tmp_path / "target"
    target.mkdir(mode=0o700)
    variables = {"TMPDIR": environ["TMPDIR"]}
    (folder,) = [
        each for each in default_socket.folders(variables) if each.name.startswith("sluice-")
    ]
    folder.symlink_to(target)
    with bind_unix(str(target / "1.sock"), "admin.socket"):
        assert folder not in [Path(path).parent for path in default_socket.find(variables)]
    with pytest.raises(OSError, match=r"private folder of this user|cannot be created"):
        default_socket.listen(1, variables)


def test_a_tool_without_login_variables_finds_the_socket(environ):
    """So does a tool with them, when Sluice has none: both search all possible folders."""
    service = default_socket.listen(1, {"TMPDIR": environ["TMPDIR"]})
    try:
        assert default_socket.find(environ) == [service.path]
    finally:
        service.close()


def test_a_runtime_folder_of_another_user_is_left_alone(environ, monkeypatch):
    """It is found in the environment of a user who became root."""
    monkeypatch.setattr("os.geteuid", lambda: 12345)
    assert [str(each) for each in default_socket.folders(environ)] == [
        f"{environ['TMPDIR']}/sluice-12345"
    ]
