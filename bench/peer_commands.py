"""The proxies that Sluice is compared with: the C relay, and the installed ones.

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
from collections.abc import Callable
from pathlib import Path

from bench.harness.command import PEER_FORM
from bench.variants import HAPROXY, RELAY, Place, Variant, first_line

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


def installed_peers(relay: Path, given: list[str]) -> list[Variant]:
    """Return the C relay at `relay`, the peers that are installed, and those given on the command line.

    Raises:
        ValueError: a peer is not NAME[@VERSION]=COMMAND.
    """
    found = [Variant(RELAY, "bench/c/relay.c", relay_command(relay)), *maybe_haproxy()]
    if path := shutil.which("nginx"):
        about = subprocess.run([path, "-V"], capture_output=True, text=True, check=False).stderr
        if "--with-stream" in about:
            found.append(Variant("nginx", about.splitlines()[0], nginx_command(path, about)))
    if path := maybe_envoy():
        found.append(Variant("envoy", first_line([path, "--version"]), envoy_command(path)))
    return found + [parse_peer(text) for text in given]


def maybe_haproxy() -> list[Variant]:
    """Return HAProxy if it is installed, else nothing."""
    path = shutil.which("haproxy")
    return [Variant(HAPROXY, first_line([path, "-v"]), haproxy_command(path))] if path else []


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

    return Variant(name, version or Path(command.split()[0]).name, fill, given=True)
