"""The Kubernetes API as a test speaks it: objects are dictionaries, a refusal is a status and its text.

Every write asks for `fieldValidation=Strict`, so that an unknown field is refused instead of dropped.
"""

import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx
import yaml

from tests.support.kafka.load import await_that

_APPLY: Final = "application/apply-patch+yaml"
Object = dict[str, Any]


class RefusedError(AssertionError):
    """The API server refused a request that the test expects to succeed."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of the API server: HTTP status, the object or Status, and its Warning headers."""

    status: int
    body: Object
    warnings: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        """Return the text of a refusal."""
        return str(self.body.get("message", ""))


@dataclass(slots=True)
class KubeApi:
    """A client with a bearer token."""

    url: str
    token: str
    ca_file: Path
    client: httpx.Client = field(init=False)
    _kinds: dict[str, dict[str, Object]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.client = httpx.Client(
            base_url=self.url,
            headers={"Authorization": f"Bearer {self.token}"},
            verify=ssl.create_default_context(cafile=self.ca_file),
            timeout=30,
        )

    def ask(
        self,
        method: str,
        path: str,
        body: Object | None = None,
        media: str = "application/json",
        **query: str,
    ) -> Answer:
        """Return the answer, also a refusal."""
        reply = self.client.request(
            method, path, json=body, params=query, headers={"Content-Type": media}
        )
        is_json = reply.headers.get("Content-Type", "").startswith("application/json")
        content = reply.json() if is_json else {"message": reply.text}
        return Answer(reply.status_code, content, tuple(reply.headers.get_list("Warning")))

    def get(self, path: str, **query: str) -> Object:
        """Return what is there; raise RefusedError if nothing is."""
        return _accepted(self.ask("GET", path, **query), path)

    def items(self, path: str, **query: str) -> list[Object]:
        """Return a list's objects."""
        return self.get(path, **query)["items"]

    def try_create(self, made: Object, namespace: str, *, dry_run: bool = False) -> Answer:
        """Post the object."""
        return self.ask(
            "POST", self.path(made, namespace, named=False), made, **_writing(dry_run=dry_run)
        )

    def try_apply(self, made: Object, namespace: str, *, dry_run: bool = False) -> Answer:
        """Apply the object on the server's side, also to fields that another manager owns."""
        query = _writing(dry_run=dry_run) | {"fieldManager": "tests", "force": "true"}
        return self.ask("PATCH", self.path(made, namespace), made, _APPLY, **query)

    def create(self, made: Object, namespace: str = "default") -> Object:
        """Post the object; raise RefusedError unless it is accepted."""
        return _accepted(self.try_create(made, namespace), _name(made))

    def apply(self, made: Object, namespace: str = "default") -> Object:
        """Apply the object on the server's side; raise RefusedError unless it is accepted."""
        return _accepted(self.try_apply(made, namespace), _name(made))

    def delete(self, path: str) -> None:
        """Delete what is there."""
        _accepted(self.ask("DELETE", path), path)

    def path(self, made: Object, namespace: str, *, named: bool = True) -> str:
        """Return the path of this object, or of its kind's list."""
        group = made["apiVersion"]
        root = f"/api/{group}" if "/" not in group else f"/apis/{group}"
        kind = self._kind(root, made["kind"])
        inside = made["metadata"].get("namespace", namespace)
        folder = f"{root}/namespaces/{inside}" if kind["namespaced"] else root
        return f"{folder}/{kind['name']}" + (f"/{made['metadata']['name']}" if named else "")

    def make_namespace(self, name: str, labels: dict[str, str] | None = None) -> str:
        """Create a namespace and wait until pods can be created in it; return its name."""
        self.create(
            {
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {"name": name, "labels": labels or {}},
            }
        )
        account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
        await_that(lambda: self.ask("GET", account).status == 200, account)
        return name

    def _kind(self, root: str, kind: str) -> Object:
        if kind not in self._kinds.get(root, {}):
            found = self.get(root)["resources"]
            self._kinds[root] = {each["kind"]: each for each in found if "/" not in each["name"]}
        return self._kinds[root][kind]


def objects(text: str) -> list[Object]:
    """Return the objects of a YAML stream."""
    return [each for each in yaml.safe_load_all(text) if each]


def _writing(*, dry_run: bool) -> dict[str, str]:
    return {"fieldValidation": "Strict"} | ({"dryRun": "All"} if dry_run else {})


def _accepted(answer: Answer, what: str) -> Object:
    if answer.status >= 300:
        raise RefusedError(f"{what}: {answer.status} {answer.message}")
    return answer.body


def _name(made: Object) -> str:
    return f"{made['kind']} {made['metadata']['name']}"
