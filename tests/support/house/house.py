"""The files of the project, as the tests of the house see them."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
ROOMS = ("sluice", "wire", "policies", "proxy", "pipeline")
MADE = {"__pycache__", "build", "dist", "site", "reports", "bin"}
"""Folders that tools make; dotfiles and *.egg-info are passed over too."""
SOURCES = {".py", ".c", ".h", ".sh"}
TEXTS = {*SOURCES, ".md", ".toml", ".yml", ".yaml", ".txt", ".cfg", ".json", ".jinja", ""}


def files_below(folder: Path) -> list[Path]:
    """Return every file that someone wrote, sorted."""
    found: list[Path] = []
    for path in sorted(folder.iterdir()):
        if path.name in MADE or path.name.startswith(".") or path.name.endswith(".egg-info"):
            continue
        found.extend(files_below(path) if path.is_dir() else [path])
    return found


FILES = [
    *files_below(ROOT),
    *(path for name in (".build", ".ci") for path in (ROOT / name).iterdir() if path.is_file()),
]
TEXT_FILES = [path for path in FILES if path.suffix in TEXTS]
MODULES = [path for path in FILES if path.suffix == ".py"]
ROOM_MODULES = [path for path in MODULES if path.relative_to(ROOT).parts[0] in ROOMS]


def name(path: Path) -> str:
    """Return the path as a reader of the project knows it."""
    return path.relative_to(ROOT).as_posix()
