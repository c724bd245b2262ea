"""Code that another user may change is refused: links, folders above and owners count; a ConfigMap is accepted."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from proxy.shell.files import why_untrusted

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files to other users")
OTHER = 4321
PROGRAM = "from proxy.shell.files import why_untrusted; print(why_untrusted({!r}))"


@pytest.fixture
def code(tmp_path: Path) -> Path:
    """A file that a link of another folder leads to."""
    real, shown = tmp_path / "real", tmp_path / "shown"
    for folder in (real, shown):
        folder.mkdir()
    (real / "guard.py").write_text("")
    (shown / "guard.py").symlink_to(real / "guard.py")
    return shown / "guard.py"


def test_what_only_root_and_this_user_may_change_is_trusted(code: Path) -> None:
    """The sticky folder above (/tmp) is no fault."""
    assert why_untrusted(str(code)) == ""
    assert why_untrusted(str(code.parent)) == ""
    assert why_untrusted(os.path.relpath(code)) == ""


@pytest.mark.parametrize("place", ["real/guard.py", "real", "shown", "."])
def test_each_folder_on_the_way_and_the_end_of_a_link_are_judged(
    code: Path, tmp_path: Path, place: str
) -> None:
    """A user that may write to one of them chooses the code."""
    (tmp_path / place).chmod(0o777)
    assert why_untrusted(str(code)) == f"{tmp_path / place} may be written by any user (o+w)"


def test_a_sticky_folder_is_safe_above_but_not_at_the_end(code: Path) -> None:
    """Any user may add a policy to it."""
    code.parent.chmod(0o1777)
    assert why_untrusted(str(code)) == ""
    assert "may be written" in why_untrusted(str(code.parent))


@AS_ROOT
@pytest.mark.parametrize("place", ["real/guard.py", "real", "shown", "shown/guard.py", "."])
def test_the_owner_of_each_is_judged(code: Path, tmp_path: Path, place: str) -> None:
    """An owner may write in any mode; root and the process's own user are trusted."""
    os.chown(tmp_path / place, OTHER, OTHER, follow_symlinks=False)
    assert why_untrusted(str(code), user=0) == (
        f"{tmp_path / place} belongs to user {OTHER}, expected 0"
    )
    assert why_untrusted(str(code), user=OTHER) == ""


def test_links_in_a_circle_or_to_nowhere_are_errors(tmp_path: Path) -> None:
    """As for the kernel."""
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="too many links"):
        why_untrusted(str(tmp_path / "a"))

    (tmp_path / "c").symlink_to("gone")
    for name in ("c", "gone"):
        with pytest.raises(FileNotFoundError):
            why_untrusted(str(tmp_path / name))


def config_map(folder: Path) -> Path:
    """Make the volume of a ConfigMap as the kubelet does: modes, owner and links."""
    version = folder / "..2026_11_27"
    version.mkdir(parents=True)
    (version / "guard.py").write_text("")
    (version / "guard.py").chmod(0o644)
    version.chmod(0o755)
    (folder / "..data").symlink_to(version.name)
    (folder / "guard.py").symlink_to("..data/guard.py")
    folder.chmod(0o777)
    return folder / "guard.py"


@AS_ROOT
def test_a_config_map_is_accepted_only_where_it_is_mounted_read_only(tmp_path: Path) -> None:
    """All below the open folder must be root's, even if Sluice runs as the user who owns it."""
    file = config_map(tmp_path / "policies")
    volume = file.parent
    assert why_untrusted(str(file), OTHER) == f"{volume} may be written by any user (o+w)"
    assert why_untrusted(str(file), OTHER, lambda place: place == volume) == ""
    assert why_untrusted(str(volume), OTHER, lambda place: place == volume) == ""
    os.chown(volume / "..2026_11_27" / "guard.py", OTHER, OTHER)
    assert why_untrusted(str(file), OTHER, lambda place: place == volume) == (
        f"{volume / '..2026_11_27' / 'guard.py'} belongs to user {OTHER}, expected 0"
    )
    os.chown(volume, OTHER, OTHER)
    assert "may be written" in why_untrusted(str(file), OTHER, lambda place: place == volume)


@AS_ROOT
def test_a_real_read_only_mount_is_told_from_a_writable_one(tmp_path: Path) -> None:
    """A namespace of its own, with a bind mount as the kubelet makes it."""
    file = config_map(tmp_path / "volume")
    mounted = tmp_path / "policies"
    mounted.mkdir()
    unshare = shutil.which("unshare")
    if unshare is None or subprocess.run([unshare, "-m", "true"], check=False).returncode:
        pytest.skip("no mount namespaces here")
    program = f"{sys.executable} -c '{PROGRAM}'".replace("{!r}", f'"{mounted / file.name}"')
    said = []
    for mode in ("rw", "ro"):
        script = f"mount --bind {file.parent} {mounted} && mount -o remount,{mode},bind {mounted} && {program}"
        ran = subprocess.run(
            [unshare, "-m", "sh", "-c", script], capture_output=True, text=True, check=True
        )
        said.append(ran.stdout.strip())
    assert said == [f"{mounted} may be written by any user (o+w)", ""]
