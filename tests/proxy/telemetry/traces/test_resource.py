"""The environment variables of traces, as OpenTelemetry specifies them."""

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


def test_the_resource_is_sluice_unless_variables_say_otherwise():
    """Attributes are percent-encoded pairs; OTEL_SERVICE_NAME has priority; an empty variable counts as not set."""
    assert resource_of({}, "1.2.3") == {"service.name": "sluice", "service.version": "1.2.3"}

    variables = {"OTEL_RESOURCE_ATTRIBUTES": "a=1, b = x%2Cy ,service.version=9,nonsense,=z"}

    assert resource_of(variables, "1") == {
        "service.name": "sluice",
        "service.version": "9",
        "a": "1",
        "b": "x,y",
    }

    named = {"OTEL_RESOURCE_ATTRIBUTES": "service.name=this", "OTEL_SERVICE_NAME": "that"}

    assert resource_of(named, "1")["service.name"] == "that"
    assert resource_of(named | {"OTEL_SERVICE_NAME": ""}, "1")["service.name"] == "this"


@pytest.mark.parametrize(
    ("variables", "expected"),
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
def test_an_endpoint_enables_otlp(variables, expected):
    """Another variable may disable it."""
    assert wants_otlp(variables) is expected


@pytest.mark.parametrize(
    ("export", "file", "variables", "expected"),
    [
        ("auto", "", {}, False),
        ("auto", "t.jsonl", {}, True),
        ("auto", "", {ENDPOINT: "http://c:4318"}, True),
        ("none", "t.jsonl", {ENDPOINT: "http://c:4318"}, False),
        ("otlp", "", {}, True),
        ("file", "", {}, True),
    ],
)
def test_traces_are_enabled_by_a_file_or_an_endpoint(export, file, variables, expected):
    """`export: file` without a file is an error that the exporter raises when it is opened."""
    assert wants_traces(export, file, variables) is expected


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
def test_valid_variables_are_accepted(variables):
    """The variables for traces have priority over those for all signals."""
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
def test_invalid_variables_are_refused_at_the_start(variables, named):
    """The message names the variable and never its value."""
    with pytest.raises(TracesError) as caught:
        check_otlp(variables)

    assert named in str(caught.value)
    assert SECRET not in str(caught.value)


def test_numbers_have_their_defaults_and_the_timeout_is_in_milliseconds():
    """As specified, it is ten seconds; the variable for traces has priority; an empty variable counts as not set."""
    assert timeout_ms({}) == 10_000
    assert timeout_ms({"OTEL_EXPORTER_OTLP_TIMEOUT": "2500"}) == 2500
    both = {"OTEL_EXPORTER_OTLP_TIMEOUT": "2500", "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT": "300"}
    assert timeout_ms(both) == 300

    assert setting({"N": ""}, "N", 5) == 5
    assert setting({"N": " 7 "}, "N", 5) == 7


@pytest.mark.parametrize("text", ["x", "0", "-5", "1.5", "²"])
def test_a_variable_that_is_not_a_number_is_refused(text):
    """The error names it."""
    with pytest.raises(TracesError, match="OTEL_EXPORTER_OTLP_TIMEOUT"):
        timeout_ms({"OTEL_EXPORTER_OTLP_TIMEOUT": text})
    with pytest.raises(TracesError, match="OTEL_BSP_MAX_QUEUE_SIZE"):
        setting({"OTEL_BSP_MAX_QUEUE_SIZE": text}, "OTEL_BSP_MAX_QUEUE_SIZE", 5)
