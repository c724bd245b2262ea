"""The source archive has everything that a build of either wheel needs."""

import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

from tests.support.house.house import FILES, ROOT

BUILD = (
    "import sys; sys.path.insert(0, '.ci'); import build_backend; build_backend.build_sdist('out')"
)
NEEDED = {".py", ".pxd"}


def test_the_archive_has_the_backend_the_modules_and_their_type_files(tmp_path: Path) -> None:
    """A build in the unpacked archive finds what it finds in a checkout."""
    rooms = ("wire", "policies", "proxy", "pipeline", ".ci")
    for path in FILES:
        inside = path.relative_to(ROOT)
        if inside.parts[0] in rooms or len(inside.parts) == 1:
            (tmp_path / inside.parent).mkdir(parents=True, exist_ok=True)
            shutil.copy(path, tmp_path / inside)
    (tmp_path / "out").mkdir()
    command = [sys.executable, "-c", BUILD]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    (archive,) = (tmp_path / "out").glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        found = {name.partition("/")[2] for name in packed.getnames()}

    modules = {
        str(path.relative_to(ROOT))
        for path in FILES
        if path.suffix in NEEDED and path.relative_to(ROOT).parts[0] in rooms[:-1]
    }
    assert len(modules) > 300
    assert modules | {".ci/build_backend.py", "pyproject.toml"} <= found
