"""The image: what is in it, how it runs without any right, and that two builds are equal byte for byte.

It has the compiled build, and the source beside it, which SLUICE_PURE=1 runs.
"""

import json
import re
import stat
import tomllib
from pathlib import Path

import pytest

from tests.support.house.house import ROOT
from tests.support.house.type_files import type_files
from tests.support.kafka.load import await_that
from tests.support.kubernetes.image import (
    IMAGE_TIMEOUT_SECONDS,
    BuiltImage,
    ImageUnavailableError,
    build,
    built_image,
)
from tests.support.kubernetes.image_container import EVERYTHING, MEMORY_BYTES, ImageContainer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(IMAGE_TIMEOUT_SECONDS)]

MAX_COMPRESSED_BYTES = 120 * 1024 * 1024
USER = 65532
MAX_RESIDENT_KB = {"pure": 73_000_000 // 1024, "compiled": 77_000_000 // 1024}
"""The difference is pages of the compiled modules' files."""
MAX_OWN_KB = {"pure": 54_000_000 // 1024, "compiled": 54_000_000 // 1024}
ENVIRONS = {"pure": {"SLUICE_PURE": "1"}, "compiled": {}}
MAX_MODULES = 1_150
LOADERS = {"ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}


@pytest.fixture(scope="module")
def image() -> BuiltImage:
    """Return the image of this checkout."""
    try:
        return built_image()
    except ImageUnavailableError as error:
        pytest.skip(str(error))


def files(image: BuiltImage) -> list[Path]:
    """Return every file and folder of the image."""
    return [image.root, *image.root.rglob("*")]


def is_program(file: Path) -> bool:
    """Return whether a file is executable; libraries are, without being programs."""
    if file.is_symlink() or not file.is_file() or not file.stat().st_mode & stat.S_IXUSR:
        return False
    return file.name in LOADERS or ".so" not in file.name


def test_it_says_how_it_is_run(image: BuiltImage) -> None:
    """Without a shell, as a user that is not root."""
    assert (image.entrypoint, image.command) == (("sluice",), ("run",))
    assert image.user == (USER, USER)
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert image.labels["org.opencontainers.image.version"] == version
    assert image.labels["org.opencontainers.image.licenses"] == "Apache-2.0"


def test_it_is_small(image: BuiltImage) -> None:
    """A node downloads it in seconds."""
    assert image.compressed_bytes <= MAX_COMPRESSED_BYTES


def test_it_has_only_what_sluice_needs(image: BuiltImage) -> None:
    """No shell, no installer, no compiler, no tests: the programs are Python, Sluice and the loader.

    Of the compiled modules it has the objects: no Cython, no type files, no C files. The
    wheels of cffi and crc32c have their own.
    """
    programs = {each.name for each in files(image) if is_program(each)}
    interpreter = image.root / "opt/sluice/bin/python3"
    assert programs - LOADERS == {"sluice", interpreter.readlink().name}
    packages = image.root / "opt/sluice/lib"
    found = {each.name for each in packages.glob("python3.*/site-packages/*")}
    assert {"sluice", "proxy", "policies", "wire", "trio"} <= found
    assert not found.intersection({"pip", "setuptools", "tests", "pytest", "Cython", "cython.py"})
    unwanted = {".pxd", ".pyx", ".a", ".o", ".c", ".h"}
    left = [each for each in files(image) if each.suffix in unwanted]
    owners = {each.parts[each.parts.index("site-packages") + 1] for each in left}
    assert owners <= {"cffi", "crc32c"}


def test_every_module_with_types_is_a_compiled_one(image: BuiltImage) -> None:
    """Its object lies beside its source, which is the checkout's."""
    [packages] = image.root.glob("opt/sluice/lib/python3.*/site-packages")
    for file in type_files():
        source = packages / file.path.relative_to(ROOT).with_suffix(".py")
        assert source.read_bytes() == file.path.with_suffix(".py").read_bytes()
        objects = list(source.parent.glob(f"{source.stem}.*.so"))
        assert len(objects) == (0 if file.is_twin else 1), file.module


def test_no_file_gives_rights_away(image: BuiltImage) -> None:
    """No setuid or setgid bit, nothing that others may write, everything owned by root."""
    for each in files(image):
        state = each.lstat()
        assert state.st_uid == state.st_gid == 0, each
        if not each.is_symlink():
            assert not state.st_mode & (stat.S_ISUID | stat.S_ISGID | stat.S_IWOTH), each


def test_every_module_is_compiled(image: BuiltImage) -> None:
    """With an unchecked hash: no start compiles, which a read-only root would repeat at every start."""
    lazy = 0b01
    for source in image.root.rglob("*.py"):
        [compiled] = source.parent.glob(f"__pycache__/{source.stem}.*.pyc")
        flags = int.from_bytes(compiled.read_bytes()[4:8], "little")
        assert flags == lazy, compiled


def test_its_bill_of_materials_is_complete(image: BuiltImage) -> None:
    """Every Python package with hashes, Python, and every Debian package whose files it has."""
    bill = json.loads((image.root / "usr/share/sluice/sbom.cdx.json").read_text())
    parts = {each["purl"].partition("@")[0]: each for each in bill["components"]}
    for found in image.root.glob("opt/sluice/lib/python3.*/site-packages/*.dist-info"):
        name = re.sub(r"[-_.]+", "-", found.name.partition("-")[0]).lower()
        if name != "kafka-sluice":
            assert parts[f"pkg:pypi/{name}"]["externalReferences"][0]["hashes"], name
    packages = {each.name for each in (image.root / "var/lib/dpkg/status.d").iterdir()}
    assert {"libc6", "libssl3t64"} <= packages
    assert {f"pkg:deb/debian/{each}" for each in packages} < parts.keys()
    assert "pkg:generic/python" in parts


def test_it_runs_without_any_right(image: BuiltImage, tmp_path: Path) -> None:
    """As a restricted pod: read-only root, no capability, no new privileges, a user, a memory limit. SIGTERM drains."""
    with ImageContainer(image, tmp_path, EVERYTHING) as sluice:
        status = sluice.status()
        assert status["Uid"].split() == status["Gid"].split() == [str(USER)] * 4
        assert int(status["CapEff"], 16) == int(status["CapBnd"], 16) == 0
        assert status["NoNewPrivs"] == "1"
        assert (sluice.ask("/startup")[0], sluice.ask("/live")[0]) == (200, 200)
        status, metrics = sluice.ask("/metrics")
        assert status == 200
        assert "sluice_build_info" in metrics
        assert json.loads(first_line(sluice, "memory_budget"))["limit_bytes"] == MEMORY_BYTES
        wrote = sluice.run_inside("python3", "-c", "open('/opt/sluice/written', 'w')")
        assert "Read-only file system" in wrote.stderr
        checked = sluice.run_inside("sluice", "check", "--config", "/etc/sluice/sluice.yaml")
        assert checked.returncode == 0, checked.stderr
        assert sluice.stop() == 0, sluice.said()


@pytest.mark.parametrize("build", ENVIRONS)
def test_at_rest_it_is_small(image: BuiltImage, tmp_path: Path, build: str) -> None:
    """With a quota, metrics and traces; the resident set has the pages of Python's own files too.

    SLUICE_PURE=1 really runs the source: no compiled module is mapped.
    """
    with ImageContainer(image, tmp_path, EVERYTHING, environ=ENVIRONS[build]) as sluice:
        mapped = Path(f"/proc/{sluice.pid}/maps").read_text()
        assert ("/proxy/core/session/session." in mapped) == (build == "compiled")
        assert build in sluice.run_inside("sluice", "version").stdout
        status = sluice.status()
        resident_kb, own_kb = (int(status[name].split()[0]) for name in ("VmRSS", "RssAnon"))
        assert resident_kb <= MAX_RESIDENT_KB[build]
        assert own_kb <= MAX_OWN_KB[build]


def test_its_start_imports_only_what_runs(image: BuiltImage, tmp_path: Path) -> None:
    """The time of a start is the imports; their number does not depend on the machine's speed."""
    words = ("python3", "-X", "importtime", "/opt/sluice/bin/sluice")
    with ImageContainer(image, tmp_path, EVERYTHING, words) as sluice:
        imported = re.findall(r"(?m)^import time: .*\| +(\S+)$", sluice.said())
    assert len(imported) <= MAX_MODULES
    assert not {"hypothesis", "kafka", "unittest", "proxy.demo"}.intersection(imported)


def first_line(sluice: ImageContainer, event: str) -> str:
    """Return the first line of an event of its log, which a thread writes: it may come after the answers."""

    def found() -> list[str]:
        return [line for line in sluice.said().splitlines() if f'"{event}"' in line]

    await_that(lambda: bool(found()), f"the event {event}", 60, sluice.said)
    return found()[0]


def test_a_second_build_is_equal(image: BuiltImage, tmp_path: Path) -> None:
    """The same sources, base and packages give the same digest, without any cached layer."""
    again = BuiltImage(tmp_path / "layout", tmp_path)
    build(again.layout, "--no-cache")
    assert again.digest == image.digest
