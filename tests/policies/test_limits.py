"""`limits`: refusals and their codes, the requests it does not see, and the settings it refuses."""

import pytest

from policies.admission import Admission
from policies.api import FORWARD, Need, PolicyConfigError, Reject
from policies.fetch_floor import FetchFloor
from policies.limits import Limits, LimitsConfig
from policies.testing import BenchHost, PolicyBench
from policies.validation import try_convert
from wire.apis import ApiKey
from wire.errors import ErrorCode


def ask(settings, api, **request):
    bench = PolicyBench(Limits, settings)
    return bench.ask(bench.request(api, **request))


def test_a_forbidden_api_is_a_policy_violation_and_the_others_pass():
    """Every admin client shows this code under its own name."""
    settings = {"forbidden_apis": ["DeleteTopics", "AlterConfigs"]}
    assert ask(settings, "DeleteTopics") == Reject(ErrorCode.POLICY_VIOLATION)
    assert ask(settings, "AlterConfigs") == Reject(ErrorCode.POLICY_VIOLATION)
    assert ask(settings, "CreateTopics") is FORWARD


@pytest.mark.parametrize(
    ("api", "code"),
    [
        ("Produce", ErrorCode.MESSAGE_TOO_LARGE),
        ("CreateTopics", ErrorCode.POLICY_VIOLATION),
    ],
)
def test_a_request_larger_than_allowed_is_refused_and_one_as_large_passes(api, code):
    """Producers know MESSAGE_TOO_LARGE; other APIs get another code."""
    settings = {"request_max_bytes": 2048}
    assert ask(settings, api, size_bytes=2048) is FORWARD
    assert ask(settings, api, size_bytes=2049) == Reject(code)


@pytest.mark.parametrize(
    ("required", "acks", "passes"),
    [
        ("all", -1, True),
        ("all", 1, False),
        ("all", 0, False),
        ("1", -1, True),
        ("1", 1, True),
        ("1", 0, False),
    ],
)
def test_a_produce_must_ask_for_at_least_the_required_acks(required, acks, passes):
    """More acks than required are never refused."""
    verdict = ask({"required_acks": required}, "Produce", acks=acks)
    assert verdict == (FORWARD if passes else Reject(ErrorCode.INVALID_REQUIRED_ACKS))


def test_other_requests_have_no_acks_to_judge():
    """A Fetch is not refused."""
    assert ask({"required_acks": "all", "request_max_bytes": 1024}, "Fetch") is FORWARD


def test_a_forbidden_api_is_reported_before_size_and_acks():
    """A request gets one code, the one that no change of the request would mend."""
    settings = {"forbidden_apis": ["Produce"], "request_max_bytes": 1024, "required_acks": "all"}
    verdict = ask(settings, "Produce", acks=1, size_bytes=5000)
    assert verdict == Reject(ErrorCode.POLICY_VIOLATION)
    del settings["forbidden_apis"]
    verdict = ask(settings, "Produce", acks=1, size_bytes=5000)
    assert verdict == Reject(ErrorCode.MESSAGE_TOO_LARGE)


@pytest.mark.parametrize(
    ("settings", "apis"),
    [
        ({"forbidden_apis": ["DeleteTopics"]}, {ApiKey.DELETE_TOPICS}),
        ({"required_acks": "1"}, {ApiKey.PRODUCE}),
        (
            {"forbidden_apis": ["DeleteTopics"], "required_acks": "all"},
            {ApiKey.DELETE_TOPICS, ApiKey.PRODUCE},
        ),
        ({"request_max_bytes": 1024}, None),
    ],
)
def test_only_apis_that_the_settings_can_refuse_are_seen(settings, apis):
    """Only a bound on sizes concerns every API."""
    assert PolicyBench(Limits, settings).policy.apis == apis


def test_it_judges_by_the_header_alone_and_without_settings_nothing():
    """Forwarded requests stream as without the policy; every setting is optional."""
    settings = {"forbidden_apis": ["Produce"], "request_max_bytes": 1024, "required_acks": "all"}
    bench = PolicyBench(Limits, settings)
    hooks = bench.chain.hooks(ApiKey.PRODUCE)
    assert hooks.need is Need.HEADER
    assert hooks.on_response is None
    assert hooks.on_complete is None

    bench = PolicyBench(Limits)
    assert bench.policy.apis == frozenset()
    assert bench.chain.hooks(ApiKey.PRODUCE).on_request is None
    assert bench.ask(bench.request("Produce", acks=0, size_bytes=1 << 30)) is FORWARD


def test_apis_that_kafka_does_not_have_are_all_named_with_the_nearest():
    """Every mistake is reported at once, with its path."""
    names = ["CreateTopics", "DeleteTopic", "Prodcue"]
    _, problems = try_convert(LimitsConfig, {"forbidden_apis": names}, "config")
    assert [(each.path, each.nearest) for each in problems] == [
        ("config.forbidden_apis[1]", "DeleteTopics"),
        ("config.forbidden_apis[2]", "Produce"),
    ]


@pytest.mark.parametrize("name", ["ApiVersions", "SaslHandshake", "SaslAuthenticate"])
def test_apis_that_every_client_needs_cannot_be_forbidden(name):
    """Without them no client could connect."""
    _, (problem,) = try_convert(LimitsConfig, {"forbidden_apis": [name]}, "")
    assert problem.path == "forbidden_apis[0]"
    assert "can do without" in problem.expected


@pytest.mark.parametrize("policy", [Limits, Admission, FetchFloor])
def test_settings_of_another_type_are_refused(policy):
    """The registry passes an instance of `Config`; any other is a bug of the caller."""
    with pytest.raises(PolicyConfigError, match=policy.Config.__name__):
        policy({}, BenchHost())
    assert Limits(LimitsConfig(), BenchHost()).apis == frozenset()


def test_the_largest_bound_of_a_request_is_the_largest_size_that_can_be_written():
    """A request's size is an int32: 2,147,483,647 is valid, one more is a mistake."""
    settings = try_convert(LimitsConfig, {"request_max_bytes": 2_147_483_647})
    assert settings == (LimitsConfig(request_max_bytes=2_147_483_647), [])
    _, problems = try_convert(LimitsConfig, {"request_max_bytes": 2_147_483_648})
    assert [problem.path for problem in problems] == ["request_max_bytes"]
