"""The image of applications in tests: this machine's own programs, read-only, with the checkout.

An application needs Java with Kafka's jars, or this Python with its libraries; the machine has both.
"""

import sys
from pathlib import Path
from typing import Final

from tests.support.kubernetes.oci_config import Image, Mount

CHECKOUT: Final = Path(__file__).resolve().parents[3]
_SYSTEM: Final = ("bin", "etc", "lib", "lib32", "lib64", "libx32", "opt", "sbin", "usr")


def host_image(directory: Path) -> Image:
    """Return the image; its root is made below `directory`."""
    root = directory / "root"
    root.mkdir(parents=True)
    cache = (CHECKOUT / ".cache").resolve()  # may be a link to that of another checkout
    folders = [Path(sys.base_prefix), Path(sys.prefix), CHECKOUT, cache]
    for entry in (Path("/", name) for name in _SYSTEM):
        if entry.is_symlink():
            (root / entry.name).symlink_to(entry.readlink())
        elif entry.is_dir():
            folders.insert(0, entry)
    return Image(
        root,
        environ={"PATH": "/usr/local/bin:/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"},
        directory=str(CHECKOUT),
        mounts=[Mount(folder, str(folder)) for folder in folders],
    )
