"""HOST:PORT as text, which can be read again: an IPv6 address stands in brackets."""

from __future__ import annotations


def host_port(host: str, port: int) -> str:
    """Return HOST:PORT, with the brackets of an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
