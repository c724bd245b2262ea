"""The configuration file in each rendered ConfigMap: what the user wrote, and accepted by the real `sluice check`."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.kafka.security_setups import write_users
from tests.support.kubernetes.chart_files import ValueSet, value_sets
from tests.support.kubernetes.pods import Pod, pods
from tests.support.processes.command_line import invoke
from tests.support.shell.certificates import Authority

SETS = value_sets()
UNITS = {"Mi": 1 << 20, "Gi": 1 << 30}
FOLDERS = ("/etc/sluice/secrets", "/var/lib/sluice")


def mounted(values: ValueSet) -> tuple[Pod, str, dict[str, str]]:
    """Return the pod with Sluice's container, the file that its arguments name, and all of the mounted ConfigMap."""
    found = values.objects()
    pod = next(
        each for each in pods(found) if any(c["name"] == "sluice" for c in each.containers())
    )
    proxy = pod.proxy()
    file = Path(proxy["args"][proxy["args"].index("--config") + 1])
    (mount,) = (each for each in proxy["volumeMounts"] if each["mountPath"] == str(file.parent))
    (volume,) = (each for each in pod.spec["volumes"] if each["name"] == mount["name"])
    (data,) = (
        each["data"]
        for each in found
        if each["kind"] == "ConfigMap" and each["metadata"]["name"] == volume["configMap"]["name"]
    )
    return pod, data[file.name], data


def limit_bytes(container: dict[str, Any]) -> int:
    """Return the container's memory limit."""
    text = container["resources"]["limits"]["memory"]
    return int(text[:-2]) * UNITS[text[-2:]]


def secrets(folder: Path, pod: Pod) -> None:
    """Write below the folder what the mounted Secrets would hold: certificates, a password, SCRAM users."""
    authority = Authority(folder / "authority")
    pair = authority.issue("sluice.example.com", "*.example.com", "localhost")
    for mount in pod.proxy()["volumeMounts"]:
        if mount["mountPath"].startswith(FOLDERS[0]):
            place = folder / mount["mountPath"].removeprefix("/")
            place.mkdir(parents=True)
            (place / "ca.crt").write_bytes(authority.ca_file.read_bytes())
            (place / "tls.crt").write_bytes(pair.cert_file.read_bytes())
            (place / "tls.key").write_bytes(pair.key_file.read_bytes())
            (place / "password").write_text("not so secret\n", "utf-8")
            if place.name == "users":
                write_users(place / "users", {"alice": "not so secret"})


@pytest.mark.parametrize("values", SETS, ids=lambda each: each.name)
def test_the_file_is_what_the_user_wrote_and_sluice_accepts_it(
    values: ValueSet, tmp_path: Path
) -> None:
    """It has every key of the user's `config`; `sluice check` finds it valid, and within the container's memory."""
    pod, text, data = mounted(values)
    given = values.values.get("sluice", values.values)["config"]
    assert missing(given, yaml.safe_load(text)) == []
    secrets(tmp_path, pod)
    for folder in FOLDERS:
        (tmp_path / folder.removeprefix("/")).mkdir(parents=True, exist_ok=True)
        text = text.replace(folder, f"{tmp_path}{folder}")
    for name, content in data.items():
        (tmp_path / name).write_text(content, "utf-8")
    file = tmp_path / "sluice.yaml"
    file.write_text(text.replace("/etc/sluice/config", str(tmp_path)), "utf-8")

    checked = invoke(
        *("check", "--config", file),
        SLUICE_MEMORY_LIMIT_BYTES=str(limit_bytes(pod.proxy())),
    )

    assert checked.exit_code == 0, checked.output
    assert "The settings are valid" in checked.output
    assert "SLUICE_MEMORY_LIMIT_BYTES" in checked.output  # the limit that counted


def missing(given: Any, found: Any, path: str = "") -> list[str]:
    """Return the paths of values that are not the same."""
    if isinstance(given, list) and isinstance(found, list) and len(given) == len(found):
        pairs = enumerate(zip(given, found, strict=True))
        return [each for place, pair in pairs for each in missing(*pair, f"{path}[{place}]")]
    if not isinstance(given, dict):
        return [] if given == found and type(given) is type(found) else [path]
    below = found if isinstance(found, dict) else {}
    return [each for key in given for each in missing(given[key], below.get(key), f"{path}.{key}")]
