"""The source archive has everything that a build of either wheel needs."""

import shutil
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

from setuptools import find_packages

from tests.support.house.house import FILES, ROOM_MODULES, ROOMS, ROOT

BUILD = "import sys; sys.path.insert(0, '.build'); import build_backend; build_backend.build_sdist('out')"


def test_the_archive_has_the_backend_the_modules_and_their_type_files(tmp_path: Path) -> None:
    """Every module and type file is in the archive, and every module in a package that the wheel takes."""
    for path in FILES:
        inside = path.relative_to(ROOT)
        if inside.parts[0] in {*ROOMS, ".build"} or len(inside.parts) == 1:
            (tmp_path / inside.parent).mkdir(parents=True, exist_ok=True)
            shutil.copy(path, tmp_path / inside)
    (tmp_path / "out").mkdir()
    command = [sys.executable, "-c", BUILD]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    (archive,) = (tmp_path / "out").glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        found = {name.partition("/")[2] for name in packed.getnames()}
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]
    packages = find_packages(str(ROOT), include=settings["packages"]["find"]["include"])

    inside = {path.relative_to(ROOT) for path in FILES if path.suffix in {".py", ".pxd"}}
    assert {str(path) for path in inside if path.parts[0] in ROOMS} <= found
    assert {".build/build_backend.py", "pyproject.toml"} <= found
    assert {".".join(path.relative_to(ROOT).parent.parts) for path in ROOM_MODULES} <= set(packages)
