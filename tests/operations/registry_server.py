"""A model registry on a port of this machine: its paths, schemas and refusals are those of Kubeflow Hub's OpenAPI file.

Every body is checked against the schema of its path, and a field that no schema names is refused, as the registry's
decoder does. Names are unique within their parent.
"""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from jsonschema import Draft4Validator

SPEC = json.loads(Path(__file__).with_name("model_registry.json").read_text())
PARENTS = {"model_version": "registeredModelId", "inference_service": "servingEnvironmentId"}


def resolved(schema: Any) -> Any:
    """The schema with its references in place, and one of a discriminator as the schemas it may be."""
    if isinstance(schema, dict):
        if "$ref" in schema:
            return resolved(_at(schema["$ref"]))
        return {key: resolved(value) for key, value in schema.items() if key != "discriminator"}
    return [resolved(each) for each in schema] if isinstance(schema, list) else schema


def _at(reference: str) -> Any:
    found = SPEC
    for part in reference.removeprefix("#/").split("/"):
        found = found[part]
    return found


def fields(schema: Any) -> set[str]:
    """Names of the properties of an object's schema."""
    own = set(schema.get("properties", {}))
    return own.union(*(fields(each) for word in ("allOf", "oneOf") for each in schema.get(word, [])))


def faults(schema: Any, body: Any) -> list[str]:
    whole = resolved(schema)
    return [error.message for error in Draft4Validator(whole).iter_errors(body)] + [
        f"unknown field {name!r}" for name in set(body) - fields(whole)
    ]


@dataclass
class Registry:
    """State of the server: entries, the calls that it was asked, and how it behaves.

    entries  kind → entries in the order of creation
    calls    method and path of each call
    token    that callers must show; empty: none
    race     kinds that another client creates just before the first call that creates one
    broken   kinds whose creation fails
    """

    url: str = ""
    entries: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    token: str = ""
    race: set[str] = field(default_factory=set)
    broken: set[str] = field(default_factory=set)

    def answer(self, method: str, path: str, query: dict[str, str], body: Any) -> tuple[int, Any]:
        for template, item in SPEC["paths"].items():
            match = re.fullmatch(re.sub(r"\{\w+\}", r"([1-9][0-9]{0,8})", template), path)
            if match and method.lower() in item:
                operation = item[method.lower()]
                kind = template.split("/")[4].removesuffix("s")
                if kind == "model_version" and path.endswith("artifacts"):
                    kind = "model_artifact"
                if operation["operationId"].startswith("find"):
                    return self._find(kind, query)
                schema = operation["requestBody"]["content"]["application/json"]["schema"]
                if wrong := faults(schema, body):
                    return 400, {"code": "400", "message": "; ".join(wrong)}
                given = match.groups()
                if method == "PATCH":
                    (entry,) = (each for each in self.entries[kind] if each["id"] == given[0])
                    entry |= body
                    return 200, entry
                if kind in self.race:
                    self.race.remove(kind)
                    self._create(kind, body, *given)
                return self._create(kind, body, *given)
        return 404, {"code": "404", "message": f"no path {method} {path}"}

    def _find(self, kind: str, query: dict[str, str]) -> tuple[int, Any]:
        parent = query.get("parentResourceId")
        for entry in self.entries.get(kind, []):
            if entry["name"] == query["name"] and parent in (None, entry["parent"]):
                return 200, {key: value for key, value in entry.items() if key != "parent"}
        return 404, {"code": "404", "message": f"no {kind} found"}

    def _create(self, kind: str, body: dict[str, Any], parent: str = "") -> tuple[int, Any]:
        if kind in self.broken:
            return 503, {"code": "503", "message": "the database is away"}
        parent = parent or body.get(PARENTS.get(kind, ""), "")
        there = self.entries.setdefault(kind, [])
        if any((entry["name"], entry["parent"]) == (body["name"], parent) for entry in there):
            return 409, {"code": "409", "message": f"{kind} with name {body['name']} already exists"}
        number = sum(map(len, self.entries.values())) + 1
        there.append(body | {"id": str(number), "parent": parent})
        return 201, body | {"id": str(number)}


@contextmanager
def registry() -> Iterator[Registry]:
    state = Registry()

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            raw = self.rfile.read(int(self.headers.get("content-length", 0)))
            address = urlsplit(self.path)
            state.calls.append(f"{self.command} {address.path.removeprefix('/api/model_registry/v1alpha3/')}")
            if state.token and self.headers.get("authorization") != f"Bearer {state.token}":
                status, content = 401, {"code": "401", "message": "Unauthorized"}
            else:
                query = {name: values[0] for name, values in parse_qs(address.query).items()}
                status, content = state.answer(self.command, address.path, query, json.loads(raw) if raw else None)
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps(content).encode())

        do_GET = do_POST = do_PATCH = _answer

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
