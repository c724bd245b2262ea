"""The build backend: setuptools, and with SLUICE_COMPILE=1 Cython before it.

Rules:
- Without the variable the wheel is pure (`py3-none-any`), and neither Cython nor a C compiler is looked for.
- With it every module that has a type file (`.pxd`) beside it is compiled from its unchanged `.py` file, unless the
  type file only has C functions for the others (`TWINS`). The wheel is for one platform, and has the `.py` files too.
- All of them are compiled or the build fails: they know each other's types, and half of them cannot be imported.
- Bounds are checked, and integers divided, as Python does. A field that was never set is None in compiled code; its
  attributes raise AttributeError, as the field itself does in Python.
- SLUICE_COMPILE=unoptimised leaves out the C compiler's optimisation, which takes most of the time: for tests.
- Floats are equal in both builds: no product and sum are rounded as one, as processors with such an instruction would.
- After a change of this file or of a twin everything is compiled again: the directives and flags may be others, and
  Cython does not notice that a module's C functions have changed.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import setuptools
from setuptools import build_meta
from setuptools.command.sdist import sdist

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

ROOT: Final = Path(__file__).resolve().parent.parent
ROOMS: Final = ("wire", "policies", "proxy")
TWINS: Final = frozenset(
    {
        "proxy/core/session/frame_heads.pxd",
        "proxy/core/session/paths.pxd",
        "proxy/shell/loop_limits.pxd",
        "proxy/shell/masks.pxd",
        "proxy/shell/system_calls.pxd",
        "wire/one_partition_reads.pxd",
        "wire/produce_runs.pxd",
        "wire/topic_runs.pxd",
    }
)
"""Type files whose functions are C inlines in the modules that use them; their `.py` is not compiled."""
CYTHON: Final = "cython>=3.3,<4"
DIRECTIVES: Final = {
    "annotation_typing": False,  # annotations are for mypy; the types are in the type files
    "binding": True,
    "boundscheck": True,
    "cdivision": False,
    "language_level": 3,
    "nonecheck": True,  # without it an attribute of None ends the process
    "overflowcheck": False,
}
FLAGS: Final = (
    "-O2",
    "-g0",
    "-ffp-contract=off",
    "-Werror=incompatible-pointer-types",  # as newer compilers do of themselves
    "-Wno-unreachable-code",
    "-Wno-unused-function",
)


def type_files() -> list[str]:
    """Return the paths of the type files, relative to the project, sorted."""
    return sorted(
        path.relative_to(ROOT).as_posix() for room in ROOMS for path in (ROOT / room).rglob("*.pxd")
    )


def compiled_modules() -> list[str]:
    """Return the paths of the modules that are compiled, relative to the project."""
    return [path[:-3] + "py" for path in type_files() if path not in TWINS]


def wants_compiled() -> bool:
    """Return whether SLUICE_COMPILE asks for the compiled wheel."""
    return os.environ.get("SLUICE_COMPILE", "") not in {"", "0"}


def is_optimised() -> bool:
    """Return whether the C compiler shall optimise."""
    return os.environ.get("SLUICE_COMPILE") != "unoptimised"


def build_folder() -> Path:
    """Return where objects are kept: setuptools does not see that they were compiled with other flags."""
    return ROOT / "build" if is_optimised() else ROOT / "build" / "unoptimised"


def extensions() -> list[Any]:
    """Return what setuptools compiles; the C files are written into build/."""
    from Cython.Build import cythonize  # noqa: PLC0415 - only this build needs it

    flags = [*FLAGS, *(() if is_optimised() else ("-O0",))]
    modules = [
        setuptools.Extension(path[:-3].replace("/", "."), [path], extra_compile_args=flags)
        for path in compiled_modules()
    ]
    return list(
        cythonize(
            modules,
            build_dir="build/c",
            compiler_directives=DIRECTIVES,
            force=is_stale(ROOT / "build/c"),
            nthreads=_jobs(),
        )
    )


def is_stale(folder: Path) -> bool:
    """Return whether C files of `folder` are older than this file or a twin; Cython compares them with the others.

    The C file of a module that is gone is never made again, so it does not count.
    """
    since = max(path.stat().st_mtime for path in (Path(__file__), *(ROOT / each for each in TWINS)))
    made = (folder / f"{path[:-3]}.c" for path in compiled_modules())
    return any(path.stat().st_mtime < since for path in made if path.exists())


def drop_stale(folder: Path, fresh: Collection[str]) -> None:
    """Remove what an earlier build has left and this one would pack: modules that are gone, or no longer compiled."""
    for path in folder.glob("lib*/**/*"):
        inside = path.relative_to(folder).parts[1:]
        source = ROOT.joinpath(*inside)
        stem = path.name.partition(".")[0]
        is_module = path.suffix in {".so", ".pyd"}
        if path.is_file() and not (
            source.with_name(f"{stem}.py").relative_to(ROOT).as_posix() in fresh
            if is_module
            else source.is_file()
        ):
            path.unlink()


def _jobs() -> int:
    return os.cpu_count() or 1


class SourceArchive(sdist):
    """An sdist with what a build needs beside the modules."""

    def make_distribution(self) -> None:
        """Add this file and the type files."""
        self.filelist.extend([".build/build_backend.py", *type_files()])
        super().make_distribution()


class Backend(build_meta._BuildMetaBackend):  # noqa: SLF001 - setuptools' own backend, which runs setup.py
    """Setuptools without a setup.py, which the top folder does not have."""

    _compiles = False

    def run_setup(self, setup_script: str = "setup.py") -> None:
        """Do what `setup_script` would do."""
        more: dict[str, Any] = {}
        if self._compiles:
            more["ext_modules"] = extensions()
            more["options"] = {
                "build": {"build_base": str(build_folder())},
                "build_ext": {"parallel": _jobs()},
                "egg_info": {"egg_base": "build"},  # the checkout's own may be in use
            }
        setuptools.setup(cmdclass={"sdist": SourceArchive}, **more)

    def get_requires_for_build_wheel(
        self, config_settings: Mapping[str, Any] | None = None
    ) -> list[str]:
        """See PEP 517."""
        found = super().get_requires_for_build_wheel(config_settings)
        return [*found, CYTHON] if wants_compiled() else found

    def build_wheel(
        self,
        wheel_directory: str,
        config_settings: Mapping[str, Any] | None = None,
        metadata_directory: str | None = None,
    ) -> str:
        """See PEP 517."""
        self._compiles = wants_compiled()
        drop_stale(build_folder(), compiled_modules() if self._compiles else ())
        return super().build_wheel(wheel_directory, config_settings, metadata_directory)


_backend = Backend()
get_requires_for_build_wheel = _backend.get_requires_for_build_wheel
get_requires_for_build_sdist = _backend.get_requires_for_build_sdist
get_requires_for_build_editable = _backend.get_requires_for_build_editable
prepare_metadata_for_build_wheel = _backend.prepare_metadata_for_build_wheel
prepare_metadata_for_build_editable = _backend.prepare_metadata_for_build_editable
build_wheel = _backend.build_wheel
build_sdist = _backend.build_sdist
build_editable = _backend.build_editable
