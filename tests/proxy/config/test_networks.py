"""Networks in settings: what is one, and the nearest to a mistake."""

import pytest

from policies.validation import SettingsError
from proxy.config import Config
from proxy.config.sources import load
from proxy.config.values import check_network

UPSTREAM = {"upstream.bootstrap_servers": ("b:9092", "--upstream")}


@pytest.mark.parametrize(
    ("text", "nearest"),
    [("10.0.0.1/8", "10.0.0.0/8"), ("fd00::1/8", "fd00::/8"), ("10.0.0.0/33", ""), ("lb", "")],
)
def test_anything_else_is_refused_with_the_nearest_network(text, nearest):
    """Bits after the prefix may be a mistake in either part."""
    found = check_network(text)
    assert found is not None
    assert found[1] == nearest


def test_the_header_of_load_balancers_is_a_setting_of_the_listener(tmp_path):
    """Its networks are in `from`; none at all is a mistake, and so is one that is no network."""
    file = tmp_path / "s.yaml"
    file.write_text("listen: {proxy_protocol: {from: [10.0.0.0/8, fd00::1]}}\n", "utf-8")
    config = load(file, {}, UPSTREAM).config
    assert isinstance(config, Config)
    assert config.listen.proxy_protocol is not None
    assert config.listen.proxy_protocol.networks == ("10.0.0.0/8", "fd00::1")
    assert config.listen.proxy_protocol.__struct_encode_fields__ == ("from",)
    for wrong in ("[]", "[10.0.0.1/8]", "[balancer]"):
        file.write_text(f"listen: {{proxy_protocol: {{from: {wrong}}}}}\n", "utf-8")
        with pytest.raises(SettingsError, match=r"listen\.proxy_protocol\.from"):
            load(file, {}, UPSTREAM)
