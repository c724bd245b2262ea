"""`sluice access explain` says of each request what the policy does with it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.access.config import OPERATIONS, AccessConfig
from policies.access.explain import fitting_rules
from policies.access.policy import Access
from policies.access.rights import Grant
from policies.testing import BenchRequest, PolicyBench
from policies.validation import try_convert
from proxy.cli.access_verdict import Named, verdict_of
from tests.support.core.access_requests import CONFIGS, apis, naming
from tests.support.core.access_rules import BOB, refused
from wire.apis import Api, ApiKey, name_of
from wire.authorization import ACTS, RESOURCE_APIS, ResourceType, Scope, checks_of

NEWEST = {api.name: api for api in apis()}


def names(kind: str, *patterns: str) -> st.SearchStrategy[dict[str, list[str]]]:
    operations = st.lists(st.sampled_from(OPERATIONS[kind]), min_size=1, max_size=3)
    return st.dictionaries(st.sampled_from(patterns), operations, max_size=2)


RULES = st.lists(
    st.fixed_dictionaries(
        {
            "who": st.just(["bob"]),
            "effect": st.sampled_from(["allow", "allow", "deny"]),
            "topics": names("topics", "secret", "s*", "*", "other"),
            "groups": names("groups", "g", "*"),
            "transactions": names("transactions", "x", "*"),
            "cluster": st.lists(st.sampled_from(ACTS), max_size=6),
        }
    ).filter(lambda rule: any(rule[key] for key in rule if key not in {"who", "effect"})),
    min_size=1,
    max_size=4,
)


def request_of(bench: PolicyBench, api: Api) -> BenchRequest:
    """Return a request that names one of each kind; of configs a topic and a group."""
    if api.key not in CONFIGS:
        return naming(bench, api)
    resources = [{"resource_type": kind, "resource_name": "secret"} for kind in (2, 32)]
    return bench.request(api.name, api.version, fields={"resources": resources})


def named_by(request: BenchRequest) -> Named:
    """Return what the options would say of a request: names that no right is about are left out."""
    kinds = {check.kind for check in checks_of(request.api)}
    topics = tuple(topic.name or "" for topic in request.topics)
    return Named(
        topics if ResourceType.TOPIC in kinds else (),
        request.groups,
        request.transactional_ids,
        request.has_pattern,
        bool(request.created) and request.api_key != ApiKey.METADATA,  # its reply is changed for it
    )


@pytest.mark.parametrize("name", sorted(map(name_of, RESOURCE_APIS)))
@given(rules=RULES)
@settings(max_examples=8)
def test_the_verdict_is_the_policys(name: str, rules: list[dict[str, object]]) -> None:
    """What is refused, by which code, and whether the whole is."""
    api = NEWEST.get(name)
    if api is None:
        return
    bench = PolicyBench(Access, {"rules": rules})
    request = request_of(bench, api)
    found = refused(bench, request)
    about = fitting_rules(grants_of(rules), {}, BOB)

    verdict = verdict_of(about, api, named_by(request), owns_tokens=True)

    assert verdict.is_allowed == (found is None)
    missing = [each for each in verdict.rights if not each.reason.is_allowed]
    if isinstance(found, int):
        assert int(missing[-1].check.code) == found
    elif missing:
        assert isinstance(found, dict)
        assert found == {each.name: int(each.check.code) for each in missing}
        assert all(each.check.scope is not Scope.REQUEST for each in missing)


def grants_of(rules: list[dict[str, object]]) -> list[Grant]:
    """Return the rules as the rights understand them."""
    config, problems = try_convert(AccessConfig, {"rules": rules})
    assert config is not None, problems
    return list(config.grants())
