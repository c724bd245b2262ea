"""The environment variables, as OpenTelemetry specifies them."""

from __future__ import annotations

import pytest

from proxy.telemetry.traces.resource import (
    TracesError,
    check_otlp,
    resource_of,
    setting,
    timeout_ms,
    wants_otlp,
    wants_traces,
)

ENDPOINT, TRACES_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
SECRET = "hunter2"  # noqa: S105 - stands for one


def test_without_variables_it_is_sluice():
    """Name and version."""
    assert resource_of({}, "1.2.3") == {"service.name": "sluice", "service.version": "1.2.3"}


def test_resource_attributes_are_added_and_win():
    """Percent-encoded pairs; what is no pair is passed over."""
    variables = {"OTEL_RESOURCE_ATTRIBUTES": "a=1, b = x%2Cy ,service.version=9,nonsense,=z"}

    assert resource_of(variables, "1") == {
        "service.name": "sluice",
        "service.version": "9",
        "a": "1",
        "b": "x,y",
    }


def test_the_service_name_wins():
    """OTEL_SERVICE_NAME over service.name; empty is not set."""
    named = {"OTEL_RESOURCE_ATTRIBUTES": "service.name=this", "OTEL_SERVICE_NAME": "that"}

    assert resource_of(named, "1")["service.name"] == "that"
    assert resource_of(named | {"OTEL_SERVICE_NAME": ""}, "1")["service.name"] == "this"


@pytest.mark.parametrize(
    ("variables", "wanted"),
    [
        ({}, False),
        ({ENDPOINT: "http://c:4318"}, True),
        ({TRACES_ENDPOINT: "http://c:4318/v1/traces"}, True),
        ({ENDPOINT: ""}, False),
        ({ENDPOINT: "http://c:4318", "OTEL_SDK_DISABLED": "TRUE"}, False),
        ({ENDPOINT: "http://c:4318", "OTEL_SDK_DISABLED": "false"}, True),
        ({ENDPOINT: "http://c:4318", "OTEL_TRACES_EXPORTER": "none"}, False),
        ({ENDPOINT: "http://c:4318", "OTEL_TRACES_EXPORTER": "otlp"}, True),
    ],
)
def test_an_endpoint_asks_for_otlp(variables, wanted):
    """Unless a variable says no."""
    assert wants_otlp(variables) is wanted


@pytest.mark.parametrize(
    ("export", "file", "variables", "wanted"),
    [
        ("auto", "", {}, False),
        ("auto", "t.jsonl", {}, True),
        ("auto", "", {ENDPOINT: "http://c:4318"}, True),
        ("none", "t.jsonl", {ENDPOINT: "http://c:4318"}, False),
        ("otlp", "", {}, True),
        ("file", "", {}, True),
    ],
)
def test_traces_are_wanted_where_something_is_named(export, file, variables, wanted):
    """`file` without a file is a mistake, which is told by whoever opens it."""
    assert wants_traces(export, file, variables) is wanted


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {ENDPOINT: "http://c:4318"},
        {ENDPOINT: "https://c", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"},
        {ENDPOINT: "nonsense", TRACES_ENDPOINT: "http://c:1/v1/traces"},
        {
            "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
            "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf",
        },
    ],
)
def test_what_can_be_done_passes(variables):
    """The variables for traces win over those for all signals."""
    check_otlp(variables)


@pytest.mark.parametrize(
    ("variables", "named"),
    [
        ({ENDPOINT: f"c:4318?key={SECRET}"}, ENDPOINT),
        ({TRACES_ENDPOINT: f"ftp://me:{SECRET}@c"}, TRACES_ENDPOINT),
        ({ENDPOINT: f"http://[{SECRET}"}, ENDPOINT),
        ({ENDPOINT: f"http://?{SECRET}"}, ENDPOINT),
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "OTEL_EXPORTER_OTLP_PROTOCOL"),
        ({"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/json"}, "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"),
    ],
)
def test_what_cannot_be_done_is_refused_at_once(variables, named):
    """The message names the variable and never its value."""
    with pytest.raises(TracesError) as caught:
        check_otlp(variables)

    assert named in str(caught.value)
    assert SECRET not in str(caught.value)


def test_the_timeout_is_milliseconds():
    """As specified, ten seconds by default; the one for traces wins."""
    assert timeout_ms({}) == 10_000
    assert timeout_ms({"OTEL_EXPORTER_OTLP_TIMEOUT": "2500"}) == 2500
    both = {"OTEL_EXPORTER_OTLP_TIMEOUT": "2500", "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT": "300"}
    assert timeout_ms(both) == 300


@pytest.mark.parametrize("text", ["x", "0", "-5", "1.5", "²"])
def test_a_number_that_is_none_is_refused(text):
    """Named by its variable."""
    with pytest.raises(TracesError, match="OTEL_EXPORTER_OTLP_TIMEOUT"):
        timeout_ms({"OTEL_EXPORTER_OTLP_TIMEOUT": text})
    with pytest.raises(TracesError, match="OTEL_BSP_MAX_QUEUE_SIZE"):
        setting({"OTEL_BSP_MAX_QUEUE_SIZE": text}, "OTEL_BSP_MAX_QUEUE_SIZE", 5)


def test_a_number_that_is_not_set_has_its_default():
    """Empty is not set."""
    assert setting({"N": ""}, "N", 5) == 5
    assert setting({"N": " 7 "}, "N", 5) == 7
