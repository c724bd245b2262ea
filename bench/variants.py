"""The variants: no proxy, Sluice, the C relay, and the installed peers.

Every proxy has one worker thread, loopback addresses, and its own defaults (raised only where 5,000 connections need
it). A peer that is not installed is left out. A peer given on the command line is a command with {listen},
{upstream}, {dir} and {config:PATH}, a template file in which the first three are filled in too. It may use the two
ports after {listen}.
"""

import importlib.util
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.harness.command import PEER_FORM

DIRECT, SLUICE, RELAY, HAPROXY = "direct", "sluice", "relay", "haproxy"
SLUICE_QUOTA = "sluice+quota"
"""Every user has a request rate that no client reaches."""

QUOTA_CONFIG = """\
upstream: {{bootstrap_servers: ["127.0.0.1:{upstream}"]}}
listen: {{port: {listen}, nodes: 0-0}}
policies:
  - use: quota
    config: {{quotas: [{{user: <default>, request_rate: 1000000000}}]}}
"""

HAPROXY_CONFIG = """\
global
  nbthread 1
  maxconn {max_connections}
defaults
  mode tcp
  timeout connect 5s
  timeout client 1h
  timeout server 1h
listen bench
  bind 127.0.0.1:{listen}
  server broker 127.0.0.1:{upstream}
"""
NGINX_CONFIG = """\
{load_module}
worker_processes 1;
pid {dir}/nginx.pid;
error_log {dir}/nginx.log;
events {{ worker_connections 16384; }}
stream {{
  server {{
    listen 127.0.0.1:{listen};
    proxy_pass 127.0.0.1:{upstream};
    proxy_timeout 1h;
  }}
}}
"""
ENVOY_CONFIG = """\
static_resources:
  listeners:
  - address: {{socket_address: {{address: 127.0.0.1, port_value: {listen}}}}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.tcp_proxy
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy
          stat_prefix: bench
          cluster: broker
  clusters:
  - name: broker
    type: STATIC
    circuit_breakers: {{thresholds: [{{max_connections: 20000, max_pending_requests: 20000}}]}}
    load_assignment:
      cluster_name: broker
      endpoints:
      - lb_endpoints:
        - endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {upstream}}}}}}}
"""


@dataclass(frozen=True, slots=True)
class Place:
    """Where one proxy runs: its ports and a folder of its own."""

    listen: int
    upstream: int
    dir: Path

    def fill(self, text: str, **more: object) -> str:
        """Return `text` with {listen}, {upstream}, {dir} and `more` filled in."""
        return text.format(listen=self.listen, upstream=self.upstream, dir=self.dir, **more)

    def write(self, name: str, text: str) -> str:
        """Write a file in the folder; return its path."""
        path = self.dir / name
        path.write_text(text)
        return str(path)


@dataclass(frozen=True, slots=True)
class Variant:
    """A proxy to measure. `command` is None for `direct`; a `peer` may fail to start."""

    name: str
    version: str
    command: Callable[[Place], list[str]] | None
    peer: bool = True


def installed(programs: dict[str, Path], peers: list[str]) -> list[Variant]:
    """Return all variants that can run here, in the order of the tables.

    Raises:
        ValueError: a peer is not NAME[@VERSION]=COMMAND.
    """
    found = [Variant(DIRECT, "load and broker alone", None)]
    sluice = Path(sys.executable).with_name("sluice")
    if sluice.exists():
        version = first_line([str(sluice), "version"])
        found.append(Variant(SLUICE, version, sluice_command(sluice), peer=False))
        found.append(
            Variant(SLUICE_QUOTA, "with a quota that no client reaches", quota_command(sluice))
        )
    found.append(Variant(RELAY, "bench/c/relay.c", relay_command(programs["relay"])))
    if path := shutil.which("haproxy"):
        found.append(Variant(HAPROXY, first_line([path, "-v"]), haproxy_command(path)))
    if path := shutil.which("nginx"):
        about = subprocess.run([path, "-V"], capture_output=True, text=True, check=False).stderr
        if "--with-stream" in about:
            found.append(Variant("nginx", about.splitlines()[0], nginx_command(path, about)))
    if path := maybe_envoy():
        found.append(Variant("envoy", first_line([path, "--version"]), envoy_command(path)))
    return found + [parse_peer(text) for text in peers]


def sluice_command(path: Path, nodes: str = "0-0") -> Callable[[Place], list[str]]:
    """Return the command of Sluice without a configuration file, for one node."""
    return lambda place: [
        *(str(path), "run", "--upstream", f"127.0.0.1:{place.upstream}"),
        *("--listen", f"127.0.0.1:{place.listen}", "--nodes", nodes),
    ]


def quota_command(path: Path) -> Callable[[Place], list[str]]:
    """Return the same with policy `quota`, which throttles no client."""
    return lambda place: [
        *(str(path), "run", "--config"),
        place.write("quota.yaml", place.fill(QUOTA_CONFIG)),
    ]


def relay_command(path: Path) -> Callable[[Place], list[str]]:
    """Return the command of the C relay."""
    return lambda place: [str(path), str(place.listen), str(place.upstream)]


def haproxy_command(path: str) -> Callable[[Place], list[str]]:
    """Return the command of HAProxy in TCP mode: one thread, default buffers."""
    return lambda place: [
        *(path, "-db", "-f"),
        place.write("haproxy.cfg", place.fill(HAPROXY_CONFIG, max_connections=8000)),
    ]


def nginx_command(path: str, about: str) -> Callable[[Place], list[str]]:
    """Return the command of nginx with its stream module: one worker. `about` is the output of `nginx -V`."""
    modules = re.search(r"--modules-path=(\S+)", about)
    dynamic = "--with-stream=dynamic" in about and modules is not None
    load = f"load_module {modules[1]}/ngx_stream_module.so;" if dynamic and modules else ""
    return lambda place: [
        *(path, "-p", str(place.dir), "-g", "daemon off;", "-e", f"{place.dir}/nginx.log", "-c"),
        place.write("nginx.conf", place.fill(NGINX_CONFIG, load_module=load)),
    ]


def maybe_envoy() -> str | None:
    """Return the path of Envoy: from its PyPI package, else from PATH; None if there is none."""
    spec = importlib.util.find_spec("envoy")
    for place in spec.submodule_search_locations or () if spec else ():
        if (binary := Path(place) / "_bin" / "envoy").exists():
            return str(binary)
    return shutil.which("envoy")


def envoy_command(path: str) -> Callable[[Place], list[str]]:
    """Return the command of Envoy with its TCP proxy filter: one worker."""
    return lambda place: [
        *(path, "--concurrency", "1", "--disable-hot-restart", "-l", "error", "-c"),
        place.write("envoy.yaml", place.fill(ENVOY_CONFIG)),
    ]


def parse_peer(text: str) -> Variant:
    """Return a variant from NAME[@VERSION]=COMMAND; without a version, the program's name stands for it.

    Raises:
        ValueError: the text has another form.
    """
    named, equals, command = text.partition("=")
    name, at, version = named.partition("@")
    if not equals or not name or (at and not version) or not command.strip():
        raise ValueError(f"--peer {text!r} is not {PEER_FORM}")

    def fill(place: Place) -> list[str]:
        def config(match: re.Match[str]) -> str:
            source = Path(match[1])
            body = source.read_text()
            for key in ("listen", "upstream", "dir"):  # templates have other braces
                body = body.replace("{" + key + "}", str(getattr(place, key)))
            return place.write(source.name, body)

        return [
            place.fill(re.sub(r"\{config:([^}]+)\}", config, part)) for part in shlex.split(command)
        ]

    return Variant(name, version or Path(command.split()[0]).name, fill)


def first_line(command: list[str]) -> str:
    """Return the first line of a program's version output, or `unknown`."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
    except OSError:
        return "unknown"
    said = (done.stdout.strip() or done.stderr.strip()).splitlines()
    if not said or done.returncode:
        return "unknown"
    return said[0].strip().replace(command[0], Path(command[0]).name)  # the report has no paths
