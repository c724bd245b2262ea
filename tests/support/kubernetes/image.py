"""The image of the Dockerfile, really built by buildah and unpacked into a root file system that runc can run.

No container engine and no registry are needed: the base is a Debian made by mmdebstrap, with the Python of the
Dockerfile's default base. Base, storage and images are kept in the checkout's cache; an image is built again when a
file that the Dockerfile copies has changed. A file lock lets several runs on one machine share the cache.
pip reaches its registry in the build as it does outside: its settings and certificates are secrets of the build.
"""

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from tests.support.house.house import ROOT

CACHE: Final = ROOT / ".cache" / "image"
TOOLS: Final = ("buildah", "runc", "umoci", "mmdebstrap")
SUITE: Final = "trixie"
PACKAGES: Final = (
    *("python3-venv", "ca-certificates", "libstdc++6"),
    *("gcc", "libc6-dev", "libpython3-dev"),  # compile Sluice in the build
)
BASE_NAME: Final = f"localhost/sluice-base:{SUITE}"
_BASE: Final = hashlib.sha256(f"{SUITE} {PACKAGES}".encode()).hexdigest()[:12]
"""Marks a base that has these packages. Its name stays: buildah has it in layers that it takes from its cache."""
EPOCH: Final = "0"
BUILD_SECONDS: Final = 1_200
IMAGE_TIMEOUT_SECONDS: Final = 2 * BUILD_SECONDS
"""Of a test that may be the first to need the image: pytest counts the time of its fixtures."""
_SHOWN_CHARACTERS: Final = 2_000
_OUTSIDE: Final = {"cert", "find-links", "require-virtualenv"}
"""Settings of pip that name files of this machine, or its environment."""
_CERTIFICATES: Final = Path("/etc/ssl/certs/ca-certificates.crt")
_KEPT_IMAGES: Final = 3
_SOURCES: Final = (
    "Dockerfile",
    ".dockerignore",
    ".build",
    "pyproject.toml",
    "README.md",
    "LICENSE",
)
_PACKAGES: Final = (
    *("requirements/build.txt", "requirements/run.txt"),
    *("sluice", "wire", "policies", "proxy"),
)


class ImageUnavailableError(Exception):
    """The image cannot be built on this machine; says why."""


@dataclass(frozen=True, slots=True)
class BuiltImage:
    """An image: its OCI layout, its root file system, and what it says of its process."""

    layout: Path
    root: Path

    @property
    def digest(self) -> str:
        """Return the digest of the manifest."""
        return str(_read(self.layout / "index.json")["manifests"][0]["digest"])

    @property
    def compressed_bytes(self) -> int:
        """Return the size that a registry stores and a node downloads."""
        manifest = self._blob(self.digest)
        return int(sum(each["size"] for each in [manifest["config"], *manifest["layers"]]))

    @property
    def labels(self) -> Mapping[str, str]:
        """Return the OCI annotations among the labels."""
        return dict(self._config.get("Labels", {}))

    @property
    def entrypoint(self) -> Sequence[str]:
        """Return the words before the command."""
        return tuple(self._config["Entrypoint"])

    @property
    def command(self) -> Sequence[str]:
        """Return the default command."""
        return tuple(self._config["Cmd"])

    @property
    def environ(self) -> Mapping[str, str]:
        """Return the variables of its environment."""
        pairs = (each.partition("=") for each in self._config["Env"])
        return {name: value for name, _, value in pairs}

    @property
    def directory(self) -> str:
        """Return the working directory."""
        return str(self._config["WorkingDir"])

    @property
    def user(self) -> tuple[int, int]:
        """Return the ids of user and group."""
        user, group = map(int, self._config["User"].split(":"))
        return user, group

    @property
    def _config(self) -> dict[str, Any]:
        config: dict[str, Any] = self._blob(self._blob(self.digest)["config"]["digest"])["config"]
        return config

    def _blob(self, digest: str) -> dict[str, Any]:
        return _read(self.layout / "blobs" / digest.replace(":", "/"))


def built_image() -> BuiltImage:
    """Return the image of this checkout; it is built if a file of it changed since.

    Raises:
        ImageUnavailableError: a tool is missing, this is not root, or the base or the image cannot be built.
    """
    require_tools()
    with _turn():
        folder = CACHE / _key()
        image = BuiltImage(folder / "layout", folder / "bundle" / "rootfs")
        if not image.root.is_dir():
            shutil.rmtree(folder, ignore_errors=True)
            _forget_old()
            build(image.layout)
            _unpack(image)
        os.utime(folder)
    return image


def require_tools() -> None:
    """Raise ImageUnavailableError with the reason if images cannot be built on this machine."""
    if os.geteuid() != 0:
        raise ImageUnavailableError("building an image without a container engine needs root")
    if missing := [tool for tool in TOOLS if shutil.which(tool) is None]:
        raise ImageUnavailableError(f"not in PATH: {', '.join(missing)} (tests/tools.sh)")


def build(layout: Path, *options: str) -> None:
    """Build the image into the OCI layout `layout`, with further options of `buildah build`.

    Raises as `build_from` does.
    """
    layout.parent.mkdir(parents=True, exist_ok=True)
    name = f"localhost/sluice:{hashlib.sha256(str(layout).encode()).hexdigest()[:12]}"
    build_from("Dockerfile", name, *options)
    _buildah("push", name, f"oci:{layout}:sluice")


def build_from(dockerfile: str, name: str, *options: str) -> None:
    """Build a Dockerfile of this checkout as the image `name`, with further options of `buildah build`.

    Raises:
        ImageUnavailableError: this machine cannot make the base of it.
        RuntimeError: the Dockerfile does not build on that base, which is a fault and no reason to skip.
    """
    _provide_base()
    secrets = CACHE / "secrets"
    secrets.mkdir(exist_ok=True)
    (secrets / "pip.conf").write_text(_pip_settings())
    certificates = Path(os.environ.get("PIP_CERT", _CERTIFICATES))
    try:
        _buildah(
            *("build", "--pull-never", "--layers", "--timestamp", EPOCH, *options),
            *("--build-arg", f"BASE={BASE_NAME}", "--build-arg", f"SOURCE_DATE_EPOCH={EPOCH}"),
            *(
                "--secret",
                f"id=pip,src={secrets / 'pip.conf'}",
                "--secret",
                f"id=ca,src={certificates}",
            ),
            *("--file", str(ROOT / dockerfile), "--tag", name, str(ROOT)),
        )
    except ImageUnavailableError as error:  # this machine has made the base, so it can build
        raise RuntimeError(f"the {dockerfile} does not build: {error}") from None


def run_in(name: str, command: Sequence[str], *options: str) -> str:
    """Run a command in a new container of an image, with options of `buildah run`; return what it printed.

    Raises ImageUnavailableError with what it said if it fails.
    """
    container = _buildah("from", "--pull-never", name).strip()
    try:
        return _buildah("run", *options, container, "--", *command)
    finally:
        _buildah("rm", container)


def _unpack(image: BuiltImage) -> None:
    _run("umoci", "unpack", "--image", f"{image.layout}:sluice", str(image.root.parent))


def _provide_base() -> None:
    """Make the base once; it is kept as an image in the storage."""
    filters = ("--filter", f"reference={BASE_NAME}", "--filter", f"label=base={_BASE}")
    if _buildah("images", "--quiet", *filters).strip():
        return
    archive = CACHE / f"{SUITE}-{_BASE}.tar"
    if not archive.exists():
        partial = archive.with_suffix(".partial.tar")
        include = f"--include={','.join(PACKAGES)}"
        lean = '--aptopt=APT::Install-Recommends "false"'
        _run("mmdebstrap", "--variant=essential", include, lean, SUITE, str(partial))
        partial.replace(archive)
    container = _buildah("from", "scratch").strip()
    try:
        _buildah("add", "--quiet", container, str(archive), "/")
        _buildah("config", "--label", f"base={_BASE}", container)
        _buildah("commit", "--quiet", container, BASE_NAME)
    finally:
        _buildah("rm", container)


def _pip_settings() -> str:
    """Return a pip.conf with this machine's registry; certificates are a secret of their own."""
    listed = _run("python3", "-m", "pip", "config", "list")
    pairs = (line.partition("=") for line in listed.splitlines())
    known = {name.rpartition(".")[2]: value.strip("'") for name, _, value in pairs}
    lines = [f"{key} = {value}" for key, value in known.items() if key not in _OUTSIDE]
    return "\n".join(["[global]", "cert = /run/secrets/ca.pem", *lines, ""])


def _key() -> str:
    """Return a name for what the image is built of."""
    listing = ("git", "-C", str(ROOT), "ls-files", "-co", "--exclude-standard", "-z", "--")
    names = _run(*listing, *_SOURCES, *_PACKAGES)
    total = hashlib.sha256(f"{SUITE} {PACKAGES} {EPOCH}".encode())
    for name in sorted(filter(None, names.split("\0"))):
        if (ROOT / name).is_file():
            total.update(f"{name}\0".encode() + hashlib.sha256((ROOT / name).read_bytes()).digest())
    return total.hexdigest()[:16]


def _forget_old() -> None:
    """Remove all but the last few images of the cache."""
    folders = [each for each in CACHE.iterdir() if (each / "layout").is_dir()]
    for each in sorted(folders, key=lambda folder: folder.stat().st_mtime)[: -_KEPT_IMAGES + 1]:
        shutil.rmtree(each)


def _buildah(*arguments: str) -> str:
    return _run("buildah", *_storage(), *arguments)


@cache
def _storage() -> Sequence[str]:
    """Return the options of the storage; its driver overlay is quicker, but does not work on every file system."""
    places = ("--root", str(CACHE / "storage"), "--runroot", str(CACHE / "run"))
    overlay = (*places, "--storage-driver", "overlay")
    try:
        _run("buildah", *overlay, "info")
    except ImageUnavailableError:
        return (*places, "--storage-driver", "vfs")
    return overlay


def _run(*command: str) -> str:
    environ = os.environ | {"BUILDAH_ISOLATION": "chroot"}
    ran = subprocess.run(
        command, env=environ, capture_output=True, text=True, timeout=BUILD_SECONDS, check=False
    )
    if ran.returncode != 0:
        said = (ran.stdout + ran.stderr)[-_SHOWN_CHARACTERS:]
        raise ImageUnavailableError(f"{' '.join(command[:2])} failed: {said}")
    return ran.stdout


@contextmanager
def _turn() -> Iterator[None]:
    """Wait until no other run uses the cache."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / ".lock").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        yield


def _read(file: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(file.read_text())
    return value
