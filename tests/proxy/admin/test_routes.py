"""The handlers of the /v1 API, called without a server."""

import json

import msgspec
import pytest
import structlog

from policies.validation import Problem, SettingsError
from proxy.admin import schemas
from proxy.telemetry import log
from tests.support.processes.admin_room import config_of, everything, quota_entry, roomy
from tests.support.processes.asgi import ask


@pytest.fixture
def room():
    with roomy(policies=(quota_entry(),)) as made:
        yield made


@pytest.fixture
def app(room):
    return everything(room)


def sets(app, query: str, body: object, **headers: str):
    return ask(app, f"/v1/quotas?{query}", "PUT", json.dumps(body).encode(), **headers)


@pytest.mark.parametrize(
    ("path", "shape"),
    [
        ("/v1/state", schemas.State),
        ("/v1/connections", schemas.ConnectionList),
        ("/v1/pool", schemas.PoolList),
        ("/v1/decisions", schemas.DecisionList),
        ("/v1/quotas", schemas.QuotaList),
        ("/v1/log-level", schemas.LogLevel),
    ],
)
async def test_each_answer_has_the_shape_of_its_schema(app, path, shape):
    """An unknown query parameter is refused."""
    answer = await ask(app, path)
    assert answer.status == 200
    assert answer.headers["content-type"] == "application/json"
    assert msgspec.json.decode(answer.body, type=shape)
    refused = await ask(app, f"{path}?wrong=1")
    assert refused.status == 400
    assert "unknown parameter" in refused.said["error"]


@pytest.mark.parametrize(("path", "highest"), [("/v1/connections", 1000), ("/v1/decisions", 500)])
async def test_a_list_has_at_most_the_number_of_rows_asked_for(room, app, path, highest):
    """The number is checked against its bounds."""
    for _ in range(3):
        room.link()
    if path == "/v1/connections":
        answer = await ask(app, f"{path}?limit=2")
        assert (answer.said["total"], len(answer.said["connections"])) == (3, 2)
    for wrong in ("0", str(highest + 1), "-1", "1.5", "x", "", "1&limit=2", "٣", "9" * 30):
        assert (await ask(app, f"{path}?limit={wrong}")).status == 400


# -- quotas ------------------------------------------------------------------------------------------


async def test_quotas_are_listed_with_their_origin_and_live_ones_apply_at_once(app, room):
    """The list has an ETag. After the removal of a live quota the config file's applies again."""
    answer = await ask(app, "/v1/quotas")
    assert answer.said["quotas"] == [
        {
            "user": "alice",
            "client_id": None,
            "quota": "request_rate",
            "per_second": 100.0,
            "origin": "file",
        }
    ]
    assert answer.headers["etag"] == f'"{answer.said["rev"]}"'

    answer = await sets(app, "user=alice", {"request_rate": 5})
    assert answer.status == 200
    assert [(q["per_second"], q["origin"]) for q in answer.said["quotas"]] == [(5.0, "override")]
    assert room.service.live_quotas.effective_quota("alice", "x").rate == 5.0
    answer = await ask(app, "/v1/quotas?user=alice", "DELETE")
    assert [(q["per_second"], q["origin"]) for q in answer.said["quotas"]] == [(100.0, "file")]


async def test_one_of_several_live_quotas_can_be_removed(app):
    """The other live quotas stay; without a name all of the entity are removed."""
    await sets(app, "user=bob&client_id=x", {"request_rate": 5, "producer_byte_rate": 7})
    answer = await ask(app, "/v1/quotas?user=bob&client_id=x&quota=request_rate", "DELETE")
    left = [(q["user"], q["client_id"], q["quota"]) for q in answer.said["quotas"]]
    assert left == [("alice", None, "request_rate"), ("bob", "x", "producer_byte_rate")]
    await sets(app, "user=bob&client_id=x", {"request_rate": 5})
    await sets(app, "user=eve", {"request_rate": 3})
    answer = await ask(app, "/v1/quotas?user=bob&client_id=x", "DELETE")
    assert {q["user"] for q in answer.said["quotas"]} == {"alice", "eve"}


async def test_the_default_user_is_named_as_in_the_config_file(app):
    """Its name is <default>."""
    answer = await sets(app, "user=%3Cdefault%3E", {"request_rate": 5})
    assert {"<default>", "alice"} == {q["user"] for q in answer.said["quotas"]}


async def test_a_quota_of_the_config_file_cannot_be_removed_live(app):
    """The error names the config file; a request to remove all live quotas of the entity succeeds."""
    answer = await ask(app, "/v1/quotas?user=alice&quota=request_rate", "DELETE")
    assert answer.status == 400
    assert "config file" in answer.said["error"]
    assert (await ask(app, "/v1/quotas?user=alice", "DELETE")).status == 200  # none of them is live


@pytest.mark.parametrize(
    ("query", "body"),
    [
        ("", {"request_rate": 5}),
        ("user=", {"request_rate": 5}),
        ("user=" + "x" * 1025, {"request_rate": 5}),
        ("user=a&user=b", {"request_rate": 5}),
        ("user=a&group=b", {"request_rate": 5}),
        ("user=a", {}),
        ("user=a", {"request_rate": 0}),
        ("user=a", {"request_rate": -1}),
        ("user=a", {"request_rate": "5"}),
        ("user=a", {"producer_byte_rate": 0.5}),
        ("user=a", {"request_percentage": 5}),
        ("user=a", [1]),
        ("user=a", None),
    ],
)
async def test_an_invalid_change_changes_nothing(room, app, query, body):
    """The error says what is wrong."""
    before = room.service.live_quotas.listed()
    answer = await sets(app, query, body)
    assert answer.status == 400
    assert answer.said["error"]
    assert room.service.live_quotas.listed() == before


@pytest.mark.parametrize(
    "body", [b"{", b"\xff", b'{"request_rate": NaN}', b'{"request_rate": 1e999}', b""]
)
async def test_a_body_that_is_not_json_is_refused(app, body):
    """The status is 400, not 500."""
    assert (await ask(app, "/v1/quotas?user=a", "PUT", body)).status == 400


async def test_a_change_for_an_older_revision_is_refused(app):
    """If-Match is compared with the ETag; * matches any revision."""
    tag = (await ask(app, "/v1/quotas")).headers["etag"]
    assert (await sets(app, "user=a", {"request_rate": 5}, if_match=tag)).status == 200
    late = await sets(app, "user=a", {"request_rate": 6}, if_match=tag)
    assert late.status == 412
    assert late.said["error"].startswith(
        f"quotas changed since revision {tag.strip(chr(34))} (If-Match): now "
    )
    assert (await sets(app, "user=a", {"request_rate": 6}, if_match="*")).status == 200


async def test_one_of_several_replicas_is_not_changed_alone():
    """A change at one replica would not reach the others."""
    with roomy(policies=(quota_entry(replicas=3),)) as room:
        answer = await sets(everything(room), "user=a", {"request_rate": 5})
    assert answer.status == 409
    assert answer.said["error"].startswith("replicas is 3: ")


async def test_a_change_that_cannot_be_saved_is_not_applied(monkeypatch, tmp_path):
    """The state file cannot be written because the disk is full."""
    with roomy(policies=(quota_entry(state_file=str(tmp_path / "q.json")),)) as room:

        def full(path: str, data: bytes) -> None:
            raise OSError(28, "No space left on device")

        for entry in room.engine.chain.entries:
            monkeypatch.setattr(entry.policy.host, "save", full)
        answer = await sets(everything(room), "user=a", {"request_rate": 5})
        assert answer.status == 500
        assert "No space left" in answer.said["error"]
        assert room.service.live_quotas.effective_quota("a", "") is None


async def test_without_a_quota_policy_quotas_are_not_found():
    """An empty list would say that no client is limited."""
    with roomy() as room:
        app = everything(room)
        assert (await ask(app, "/v1/quotas")).status == 404
        assert (await sets(app, "user=a", {"request_rate": 5})).status == 404


# -- the rest ----------------------------------------------------------------------------------------


async def test_a_connection_is_closed_by_its_id(room, app):
    """Other connections stay open."""
    _, _, first = room.link()
    _, _, second = room.link()
    answer = await ask(app, f"/v1/connections/{first.peer.session_id}", "DELETE")
    assert (answer.status, answer.body) == (204, b"")
    assert first.ended
    assert not second.ended


@pytest.mark.parametrize(
    ("ident", "status"), [("999", 404), ("x", 400), ("-1", 400), ("1.0", 400), ("9" * 25, 400)]
)
async def test_an_unknown_connection_is_not_found(app, ident, status):
    """An id that is not a number is refused."""
    assert (await ask(app, f"/v1/connections/{ident}", "DELETE")).status == status


async def test_a_drain_is_started(room, app):
    """A second request changes nothing."""
    answer = await ask(app, "/v1/drain", "POST", b"{}")
    assert (answer.status, answer.said) == (202, {"draining": True})
    assert room.drained
    assert (await ask(app, "/v1/drain", "POST", b'{"now": true}')).status == 400


async def test_a_drain_begins_after_its_answer(room, app):
    """Without clients the process ends at once, and would drop the connection of the one who asked."""
    drained = []

    async def noting(scope, receive, send):
        async def note(message):
            drained.append(room.drained)
            await send(message)

        await app(scope, receive, note)

    await ask(noting, "/v1/drain", "POST", b"{}")
    assert drained == [False, False]
    assert room.drained


async def test_the_log_level_is_read_and_set(app):
    """It applies to the whole process."""
    before = log.level()
    try:
        answer = await ask(app, "/v1/log-level", "PUT", b'{"level": "debug"}')
        assert answer.said == {"level": "debug"}
        assert log.level() == "debug"
        assert (await ask(app, "/v1/log-level")).said == {"level": "debug"}
        for wrong in (b'{"level": "loud"}', b"{}", b'{"level": "info", "x": 1}', b'"info"'):
            assert (await ask(app, "/v1/log-level", "PUT", wrong)).status == 400
        assert log.level() == "debug"
    finally:
        log.set_level(before)


async def test_a_reload_answers_with_the_changed_settings(room, app):
    """The list is empty when nothing has changed."""
    room.settings = config_of(policies=(quota_entry(quotas=[{"user": "bob", "request_rate": 1}]),))
    answer = await ask(app, "/v1/reload", "POST")
    assert (answer.status, answer.said["changed"]) == (200, ["policies"])
    assert [q["user"] for q in (await ask(app, "/v1/quotas")).said["quotas"]] == ["bob"]
    assert (await ask(app, "/v1/reload", "POST")).said["changed"] == []


async def test_a_reload_of_an_invalid_configuration_names_every_error(room, app):
    """Nothing of it is applied."""
    room.settings = SettingsError([Problem("listen.port", "found 0", "a port")])
    with structlog.testing.capture_logs():
        answer = await ask(app, "/v1/reload", "POST")
    assert answer.status == 422
    assert "listen.port" in answer.said["problems"][0]
    assert room.service.facts().reloads.failed == 1


@pytest.mark.parametrize(
    ("path", "method"),
    [
        ("/v1/state", "POST"),
        ("/v1/drain", "GET"),
        ("/v1/log-level", "DELETE"),
        ("/v1/quotas", "PATCH"),
        ("/live", "PUT"),
    ],
)
async def test_other_methods_are_not_allowed(app, path, method):
    """The answer lists the allowed ones."""
    answer = await ask(app, path, method)
    assert answer.status == 405
    assert answer.headers["allow"]
    assert answer.said["error"]


@pytest.mark.parametrize(
    "path", ["/v1", "/v1/nothing", "/v1/state/", "/V1/state", "/v1/quotas/alice", "/v2/state"]
)
async def test_other_paths_are_not_found(app, path):
    """Paths that differ from a known one by a slash or a letter are not found either."""
    assert (await ask(app, path)).status == 404
