"""Which peers are compared, and how each is started."""

from pathlib import Path

import pytest

from bench.peer_commands import (
    envoy_command,
    haproxy_command,
    nginx_command,
    parse_peer,
)
from bench.variants import Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A place to run at."""
    return Place(2001, 2000, tmp_path)


def test_the_configurations_carry_both_ports(place: Place) -> None:
    """Each peer is told where to listen and where to connect, in a file of its own folder."""
    haproxy_command("haproxy")(place)
    nginx_command("nginx", "--modules-path=/m --with-stream=dynamic")(place)
    envoy_command("envoy")(place)
    for name in ("haproxy.cfg", "nginx.conf", "envoy.yaml"):
        text = (place.dir / name).read_text()
        assert "2001" in text
        assert "2000" in text


def test_a_peer_is_filled_in(place: Place, tmp_path: Path) -> None:
    """Ports go into the command and into its configuration file, other braces stay."""
    template = tmp_path / "peer.in"
    template.write_text("{a: {listen}}")
    variant = parse_peer(f"mine=run --to {{upstream}} '{{config:{template}}}'")
    assert variant.name == "mine"
    assert variant.command is not None
    command = variant.command(Place(2001, 2000, tmp_path / "own")) if _made(tmp_path) else []
    assert command == ["run", "--to", "2000", str(tmp_path / "own" / "peer.in")]
    assert (tmp_path / "own" / "peer.in").read_text() == "{a: 2001}"


def _made(folder: Path) -> bool:
    (folder / "own").mkdir()
    return True


def test_a_malformed_peer_is_refused() -> None:
    """The message shows the form and what was given."""
    for text in ("nothing", "=run", "name= ", "@1=run", "name@=run"):
        with pytest.raises(ValueError, match=r"is not NAME\[@VERSION\]=COMMAND"):
            parse_peer(text)
