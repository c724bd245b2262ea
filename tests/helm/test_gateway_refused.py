"""Bad and contradictory values of the gateway's chart are refused, with the path and what is expected."""

import pytest

from tests.support.kubernetes.charts import Object
from tests.support.kubernetes.gateway import Release, refused, values

QUOTA = {"policies": [{"use": "quota", "name": "fair"}]}
SECRET = "/etc/sluice/secrets"  # noqa: S105 - a folder
ISSUER = {"enabled": True, "issuerRef": {"name": "ca"}}


def tls(**others: object) -> Object:
    """Return a listener with TLS."""
    files = {"cert_file": f"{SECRET}/tls/tls.crt", "key_file": f"{SECRET}/tls/tls.key"}
    return {"listen": {"tls": {**files, **others}}}


@pytest.mark.parametrize(
    ("given", "path", "words"),
    [
        ({"kinds": "Deployment"}, "", "'kinds' not allowed"),
        ({"kind": "DaemonSet"}, "/kind", "must be one of"),
        ({"replicas": -1}, "/replicas", "minimum"),
        ({"drain": {"preStop": 5}}, "/drain", "'preStop' not allowed"),
        ({"service": {"type": "ExternalName"}}, "/service/type", "must be one of"),
        ({"service": {"ports": []}}, "/service", "'ports' not allowed"),
        ({"clusterDomain": ".local"}, "/clusterDomain", "does not match pattern"),
        ({"serviceAccount": {"automount": True}}, "/serviceAccount", "'automount' not allowed"),
        (
            {"podDisruptionBudget": {"minAvailable": "half"}},
            "/podDisruptionBudget/minAvailable",
            "does not match pattern",
        ),
        (
            {"topologySpreadConstraints": [{"topologyKey": "zone"}]},
            "/topologySpreadConstraints/0",
            "missing properties",
        ),
        ({"autoscaling": {"maxReplicas": 0}}, "/autoscaling/maxReplicas", "minimum"),
        (
            {"networkPolicy": {"brokers": {"ports": [0]}}},
            "/networkPolicy/brokers/ports/0",
            "minimum",
        ),
        ({"certificate": {"issuer": "ca"}}, "/certificate", "'issuer' not allowed"),
        ({"certificate": {"duration": "90d"}}, "/certificate/duration", "does not match pattern"),
        ({"updateStrategy": {"rollingUpdate": {"surge": 1}}}, "/updateStrategy", "'surge'"),
        ({"kubeVersion": "new"}, "/kubeVersion", "does not match pattern"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_a_bad_value_is_refused(given: Object, path: str, words: str) -> None:
    """Helm names the path of the value."""
    told = refused(**given)

    assert f"at '{path}" in told
    assert words in told


def test_sni_needs_tls() -> None:
    """A pattern without the listener's certificate is refused by the settings' own schema."""
    told = refused({"listen": {"tls": {"sni_pattern": "b-$(node).test"}}})

    assert "at '/config/listen/tls'" in told
    assert "missing properties" in told


@pytest.mark.parametrize(
    ("config", "others", "words"),
    [
        (
            QUOTA,
            {"autoscaling": {"enabled": True}},
            'autoscaling.enabled: found true with the quota policy "fair"',
        ),
        (
            {},
            {"autoscaling": {"enabled": True, "minReplicas": 9}},
            "autoscaling.minReplicas: found 9, expected at most autoscaling.maxReplicas (6)",
        ),
        (
            {},
            {"autoscaling": {"enabled": True}, "resources": {"requests": {"cpu": None}}},
            "resources.requests.cpu: found nothing",
        ),
        (
            {},
            {"podDisruptionBudget": {"maxUnavailable": 1, "minAvailable": "50%"}},
            "podDisruptionBudget: found maxUnavailable (1) and minAvailable (50%)",
        ),
        (
            {},
            {"podMonitor": {"enabled": True}, "serviceMonitor": {"enabled": True}},
            "serviceMonitor.enabled: found true with podMonitor.enabled",
        ),
        (
            {},
            {"terminationGracePeriodSeconds": 32},
            "terminationGracePeriodSeconds: found 32, expected more than 32",
        ),
        (
            {"drain": {"timeout_ms": 60_000}},
            {},
            "terminationGracePeriodSeconds: found 40, expected more than 67",
        ),
        (
            {"listen": {"address": "127.0.0.1"}},
            {},
            'config.listen.address: found "127.0.0.1", expected 0.0.0.0 or ::',
        ),
        (
            {"listen": {"port": 65_530}},
            {},
            "config.listen.port: found 65530, expected at most 65503",
        ),
        ({"listen": {"nodes": "5-1"}}, {}, 'config.listen.nodes: found "5-1"'),
        ({"listen": {"nodes": "0-1000"}}, {}, 'config.listen.nodes: found "0-1000"'),
        ({"listen": {"nodes": "0-900,1000-1200"}}, {}, "expected each node once, and 1000 at most"),
        ({"listen": {"nodes": "0-5,3"}}, {}, "expected each node once, and 1000 at most"),
        ({}, {"service": {"spec": {"ports": []}}}, "service.spec.ports: found a value"),
        (
            {},
            {"service": {"type": "NodePort"}},
            "config.listen.port: found ports 9092..9124, expected 30000..32767",
        ),
        (
            {},
            {"certificate": {"enabled": True}},
            "certificate.issuerRef.name: found nothing",
        ),
        (
            tls(cert_file="/etc/other/tls.crt"),
            {"certificate": ISSUER},
            'config.listen.tls.cert_file: found "/etc/other/tls.crt"',
        ),
        (tls(), {}, 'secrets: found no "tls"'),
        (
            {"audit": {"file": "/var/lib/a"}, "admin": {"token_file": f"{SECRET}/admin/token"}},
            {"secrets": {"other": "x"}},
            'secrets: found no "admin"',
        ),
        (
            {},
            {"usageLogVolume": {"kind": "claim"}},
            'usageLogVolume.kind: found "claim" with kind Deployment',
        ),
        (
            {},
            {"usageLogVolume": {"kind": "existingClaim"}},
            'usageLogVolume.existingClaim: found "" with kind "existingClaim"',
        ),
        (
            {},
            {"usageLogVolume": {"existingClaim": "logs"}},
            'usageLogVolume.existingClaim: found "logs" with kind "none"',
        ),
        (
            {"admin": {"listen": "127.0.0.1:9644"}},
            {},
            'config.admin.listen is "127.0.0.1:9644"',
        ),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_values_that_contradict_each_other_are_refused(
    config: Object, others: Object, words: str
) -> None:
    """The message has the path, the value and what is expected."""
    assert words in refused(config, **others)


def test_autoscaling_beside_a_quota_can_be_accepted() -> None:
    """Then the policy has the largest number of pods, and the notes warn."""
    given = values(QUOTA, autoscaling={"enabled": True, "acceptQuotasPerInstance": True})
    release = Release(given)

    assert release.all("HorizontalPodAutoscaler")
    assert "With 6 pods" in release.notes
