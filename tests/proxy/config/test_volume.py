"""A configuration file in a Kubernetes volume; tests/integration/test_pod.py tests it in a real container."""

from pathlib import Path

import pytest
import trio.testing

from proxy.config.volume import POLL_S, ConfigVolume


def swap(folder: Path, version: str, text: str = "") -> None:
    """Replace the volume's contents as the kubelet does: a new folder, and a link that is renamed over the old one."""
    (folder / version).mkdir()
    (folder / version / "sluice.yaml").write_text(text)
    fresh = folder / "..data_tmp"
    fresh.symlink_to(version)
    fresh.replace(folder / "..data")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file in a volume of Kubernetes."""
    swap(tmp_path, "..2026_1")
    (tmp_path / "sluice.yaml").symlink_to("..data/sluice.yaml")
    return tmp_path / "sluice.yaml"


async def test_each_swap_is_reported_once(
    file: Path, autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    """One call for each swap, also if the file's text is the same; none without a swap."""
    calls: list[float] = []
    nursery.start_soon(ConfigVolume(file).watch, lambda: calls.append(trio.current_time()))
    await trio.sleep(3 * POLL_S)
    assert not calls
    swap(file.parent, "..2026_2")
    await trio.sleep(3 * POLL_S)
    assert len(calls) == 1
    swap(file.parent, "..2026_3")
    await trio.sleep(3 * POLL_S)
    assert len(calls) == 2


async def test_a_swap_during_the_start_is_not_missed(
    file: Path, autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    """The link is noted before the file is read."""
    calls: list[None] = []
    volume = ConfigVolume(file)
    swap(file.parent, "..2026_2")
    nursery.start_soon(volume.watch, lambda: calls.append(None))
    await trio.sleep(POLL_S / 2)
    assert len(calls) == 1


async def test_a_link_that_is_gone_changes_nothing(
    file: Path, autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    """Until it leads somewhere again, the configuration that runs is kept."""
    calls: list[None] = []
    nursery.start_soon(ConfigVolume(file).watch, lambda: calls.append(None))
    (file.parent / "..data").unlink()
    await trio.sleep(3 * POLL_S)
    assert not calls
    swap(file.parent, "..2026_2")
    await trio.sleep(3 * POLL_S)
    assert len(calls) == 1


@pytest.mark.parametrize("is_given", [True, False])
async def test_a_file_elsewhere_is_not_watched(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, *, is_given: bool
) -> None:
    """An editor may be writing it; and there may be no file at all."""
    (tmp_path / "sluice.yaml").write_text("")
    with trio.move_on_after(10 * POLL_S):
        await ConfigVolume(tmp_path / "sluice.yaml" if is_given else None).watch(pytest.fail)


async def test_a_swap_of_a_volume_of_a_file_that_policies_read_is_reported(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    """Its first look counts as a swap. In the configuration's own volume it adds nothing."""
    own, other = tmp_path / "own", tmp_path / "other"
    for folder in (own, other):
        folder.mkdir()
        swap(folder, "..2026_1")
    in_use = [str(own / "quotas.yaml")]
    calls: list[None] = []
    volume = ConfigVolume(own / "sluice.yaml")
    nursery.start_soon(volume.watch, lambda: calls.append(None), lambda: in_use)
    await trio.sleep(3 * POLL_S)
    assert not calls
    in_use.append(str(other / "quotas.yaml"))
    await trio.sleep(3 * POLL_S)
    assert len(calls) == 1
    swap(other, "..2026_2")
    await trio.sleep(3 * POLL_S)
    assert len(calls) == 2
    swap(own, "..2026_2")
    await trio.sleep(3 * POLL_S)
    assert len(calls) == 3
    in_use.clear()
    await trio.sleep(3 * POLL_S)
    swap(other, "..2026_3")
    await trio.sleep(3 * POLL_S)
    assert len(calls) == 3
