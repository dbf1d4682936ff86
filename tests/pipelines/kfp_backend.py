"""A server that answers as the Kubeflow Pipelines API does, for as much of it as uploads, runs and schedules need.

It has one user, or many with a namespace each. A package is taken apart as the API server does, and the parameters of
a run are held against those of its pipeline: unknown ones, missing ones without a default and those of another type are
refused. So is a cron that the scheduler would not parse.
"""

import json
import re
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml
from kfp_users import Refused, Users

API = "/apis/v2beta1"


class Backend:
    """State of the server: pipelines, their versions, experiments, recurring runs and runs.

    users  of a backend with many; None where it has one
    """

    def __init__(self, users: Users | None = None) -> None:
        self.users = users
        self.pipelines: dict[str, dict[str, Any]] = {}
        self.versions: dict[str, list[dict[str, Any]]] = {}
        self.experiments: dict[str, dict[str, Any]] = {}
        self.recurring: dict[str, dict[str, Any]] = {}
        self.runs: dict[str, dict[str, Any]] = {}
        self.packages: dict[str, list[dict[str, Any]]] = {}
        self.url = ""
        self._count = 0

    def new_id(self) -> str:
        self._count += 1
        return f"id-{self._count}"

    def answer(
        self, method: str, path: str, query: dict[str, list[str]], body: bytes, user: str = ""
    ) -> tuple[int, dict[str, Any]]:
        try:
            return self._answer(method, path, query, body, user)
        except Refused as error:
            if "/upload" in path:
                # The upload server tells nobody why.
                return 400, {"error_message": "Failed to create a pipeline", "error_details": "…"}
            code = {400: 3, 401: 16, 403: 7}[error.status]
            return error.status, {"error": str(error), "code": code, "message": str(error)}

    def _answer(
        self, method: str, path: str, query: dict[str, list[str]], body: bytes, user: str
    ) -> tuple[int, dict[str, Any]]:
        def check(verb: str, resource: str, namespace: str) -> None:
            if self.users:
                self.users.check(user, verb, resource, namespace)

        def owned(identifier: str) -> str:
            return str(self.experiments[identifier].get("namespace", ""))

        asked = query.get("namespace", [""])[0] if self.users else ""
        match method, path.removeprefix(API).strip("/").split("/"):
            case "GET", ["healthz"]:
                return 200, {"multi_user": True} if self.users else {}
            case "GET", ["pipelines"]:
                check("list", "pipelines", asked)
                return 200, {"pipelines": _named(self.pipelines, query, asked)}
            case "POST", ["pipelines", "upload"]:
                # Whoever names no namespace shares the pipeline with all, unasked.
                if asked:
                    check("create", "pipelines", asked)
                made = {"pipeline_id": self.new_id(), "display_name": query["name"][0], "namespace": asked}
                if _same(self.pipelines, made):
                    return 409, {"error_message": "Failed to create a pipeline and a pipeline version"}
                made["description"] = query.get("description", [""])[0]
                self.pipelines[made["pipeline_id"]] = made
                self._version(made["pipeline_id"], made["display_name"], _package(body))
                return 200, made
            case "POST", ["pipelines", "upload_version"]:
                if owner := self.pipelines[query["pipelineid"][0]]["namespace"]:
                    check("create", "pipelines", owner)
                return 200, self._version(query["pipelineid"][0], query["name"][0], _package(body))
            case "GET", ["pipelines", pipeline, "versions"]:
                check("list", "pipelines", self.pipelines[pipeline]["namespace"])
                return 200, {"pipeline_versions": self.versions[pipeline][::-1]}
            case "GET", ["experiments"]:
                check("list", "experiments", asked)
                return 200, {"experiments": _named(self.experiments, query, asked)}
            case "POST", ["experiments"]:
                made = {**json.loads(body), "experiment_id": self.new_id()}
                made["namespace"] = made.get("namespace", "") if self.users else ""
                check("create", "experiments", made["namespace"])
                self.experiments[made["experiment_id"]] = made
                return 200, made
            case "GET", ["recurringruns"]:
                owner = query["experiment_id"][0]
                check("list", "jobs", owned(owner))
                return 200, _page([r for r in self.recurring.values() if r["experiment_id"] == owner], query)
            case "GET", ["recurringruns", identifier]:
                check("get", "jobs", owned(self.recurring[identifier]["experiment_id"]))
                return 200, self.recurring[identifier]
            case "POST", ["recurringruns"]:
                made = {**json.loads(body), "recurring_run_id": self.new_id()}
                check("create", "jobs", owned(made["experiment_id"]))
                version = made["pipeline_version_reference"]["pipeline_version_id"]
                parameters = made["runtime_config"].get("parameters") or {}
                cron = made["trigger"]["cron_schedule"]["cron"]
                if reason := _bad_cron(cron) or _refusal(self.packages[version][0], parameters):
                    return 400, {"error": reason, "code": 3, "message": reason}
                self.recurring[made["recurring_run_id"]] = made
                return 200, made
            case "POST", ["runs"]:
                made = {**json.loads(body), "run_id": self.new_id()}
                check("create", "runs", owned(made["experiment_id"]))
                version = made["pipeline_version_reference"]["pipeline_version_id"]
                if reason := _refusal(self.packages[version][0], made["runtime_config"].get("parameters") or {}):
                    return 400, {"error": reason, "code": 3, "message": reason}
                self.runs[made["run_id"]] = made
                return 200, made
            case "DELETE", ["recurringruns", identifier]:
                check("delete", "jobs", owned(self.recurring[identifier]["experiment_id"]))
                del self.recurring[identifier]
                return 200, {}
        return 404, {"error": f"{method} {path}"}

    def _version(self, pipeline: str, name: str, package: list[dict[str, Any]]) -> dict[str, Any]:
        made = {"pipeline_version_id": self.new_id(), "pipeline_id": pipeline, "display_name": name}
        self.packages[made["pipeline_version_id"]] = package
        self.versions.setdefault(pipeline, []).append(made)
        return made


def _same(objects: dict[str, dict[str, Any]], made: dict[str, Any]) -> bool:
    """Whether the namespace has one of that name."""
    return any(
        (each["display_name"], each["namespace"]) == (made["display_name"], made["namespace"])
        for each in objects.values()
    )


def _named(objects: dict[str, dict[str, Any]], query: dict[str, list[str]], namespace: str) -> list[dict[str, Any]]:
    chosen = json.loads(query["filter"][0]) if "filter" in query else {"predicates": []}
    wanted = {predicate.get("stringValue", predicate.get("string_value")) for predicate in chosen["predicates"]}
    found = [entry for entry in objects.values() if entry["namespace"] == namespace]
    return [entry for entry in found if not wanted or entry["display_name"] in wanted]


def _page(runs: list[dict[str, Any]], query: dict[str, list[str]]) -> dict[str, Any]:
    """At most 200 at a time, as the API server has it, 20 where nothing is said."""
    first = int(query.get("page_token", ["0"])[0] or 0)
    after = first + min(int(query.get("page_size", ["20"])[0]), 200)
    more = {"next_page_token": str(after)} if after < len(runs) else {}
    return {"recurringRuns": runs[first:after], **more}


def _package(body: bytes) -> list[dict[str, Any]]:
    """The documents of an uploaded file: the pipeline, and what it says of platforms."""
    text = re.search(rb"\r\n\r\n(.*)\r\n--", body, re.S)
    assert text is not None
    spec, *platforms = yaml.safe_load_all(text[1])
    assert spec["pipelineInfo"]["name"]
    assert all(set(platform["platforms"]) == {"kubernetes"} for platform in platforms)
    return [spec, *platforms]


KINDS: dict[str, type | tuple[type, ...]] = {
    "STRING": str,
    "NUMBER_INTEGER": (int, float),
    "NUMBER_DOUBLE": (int, float),
    "BOOLEAN": bool,
    "LIST": list,
    "STRUCT": dict,
}


def _refusal(spec: dict[str, Any], given: dict[str, Any]) -> str | None:
    """Why the API server would not run a pipeline with these parameters."""
    known = spec["root"]["inputDefinitions"]["parameters"]
    for name, parameter in known.items():
        if name not in given and not parameter.get("isOptional"):
            return f"parameter {name} is not optional, yet has neither default value nor user provided value"
        if name in given and not isinstance(given[name], KINDS[parameter["parameterType"]]):
            return f"input parameter {name} requires type {parameter['parameterType'].lower()}"
    return next((f"parameter provided is not required: {name}" for name in given if name not in known), None)


RANGES = ((0, 59), (0, 59), (0, 23), (1, 31), (1, 12), (0, 6))
"""Of seconds, minutes, hours, days, months and weekdays."""


def _bad_cron(cron: str) -> str | None:
    """Why the scheduler would not take a cron of numbers, ranges, steps and lists."""
    fields = cron.split()
    parts = [(part, bounds) for field, bounds in zip(fields, RANGES, strict=False) for part in field.split(",")]
    for part, (least, most) in parts:
        found = re.fullmatch(r"(?:\*|(\d+)(?:-(\d+))?)(?:/([1-9]\d*))?", part)
        if not found or any(not least <= int(value) <= most for value in found.groups()[:2] if value):
            return f"The Cron expression is invalid: {part} is not in {least}-{most}"
    return None if len(fields) == len(RANGES) else f"The Cron expression is invalid: {len(fields)} fields"


SIGN_IN = "/dex/auth"


@contextmanager
def serving(users: Users | None = None, tls: ssl.SSLContext | None = None) -> Iterator[Backend]:
    """The server on a free port."""
    backend = Backend(users)

    class Handler(BaseHTTPRequestHandler):
        def _do(self) -> None:
            parts = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            user = users.user(self.headers) if users else ""
            if parts.path == SIGN_IN:
                self._send(200, b"<html>Log in</html>", "text/html")
            elif users and users.gateway and not user:
                self._send(302, b"", "text/html", {"Location": SIGN_IN})
            else:
                status, content = backend.answer(self.command, parts.path, parse_qs(parts.query), body, user)
                self._send(status, json.dumps(content).encode(), "application/json")

        def _send(self, status: int, payload: bytes, kind: str, more: Mapping[str, str] = MappingProxyType({})) -> None:
            self.send_response(status)
            for name, value in {"Content-Type": kind, "Content-Length": str(len(payload)), **more}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(payload)

        do_GET = do_POST = do_DELETE = _do

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    backend.url = f"http{'s' if tls else ''}://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield backend
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
