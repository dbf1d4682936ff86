"""Callers of a Kubeflow Pipelines backend, and what they may do, as its source of 2.16.1 and 2.17.0 has it.

In ``backend/src/apiserver``: ``IsAuthorized`` of ``resource/resource_manager.go``, the authenticators of ``auth/``,
``canAccessPipeline`` of ``server/pipeline_server.go``, ``canAccessJob`` of ``server/job_server.go``, and
``canUploadVersionedPipeline`` of ``server/pipeline_upload_server.go``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from email.message import Message

AUDIENCE = "pipelines.kubeflow.org"
READS = ("get", "list")


class Refused(Exception):
    """A refusal with its HTTP status and words."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


@dataclass
class Users:
    """Tokens, sessions and roles of a backend with many users.

    tokens    bearer token → user and audience
    sessions  cookie → user, as the gateway signs people in
    edit      (user, namespace) with the role kubeflow-pipelines-edit
    view      (user, namespace) that may read only
    gateway   whether a gateway is in front, which sends a caller without a session to a page
    asked     (user, verb, resource, namespace) of each question that was answered
    """

    tokens: dict[str, tuple[str, str]] = field(default_factory=dict)
    sessions: dict[str, str] = field(default_factory=dict)
    edit: set[tuple[str, str]] = field(default_factory=set)
    view: set[tuple[str, str]] = field(default_factory=set)
    gateway: bool = False
    asked: list[tuple[str, str, str, str]] = field(default_factory=list)

    def user(self, headers: Message | Mapping[str, str]) -> str:
        """The user of a call; empty where nothing says who calls."""
        if (cookie := headers.get("Cookie", "")) in self.sessions:
            return self.sessions[cookie]
        name, audience = self.tokens.get(headers.get("Authorization", "").removeprefix("Bearer "), ("", ""))
        return name if audience == AUDIENCE else ""

    def check(self, user: str, verb: str, resource: str, namespace: str) -> None:
        """Raise what the API server answers a call that it does not take."""
        if not namespace:
            if resource == "pipelines" and verb in READS:
                return
            if resource == "pipelines":
                namespace = "kubeflow"
            else:
                raise Refused(400, f"{resource} cannot have an empty namespace in multi-user mode")
        if not user:
            raise Refused(401, "Failed to check authorization. User identity is empty in the request header")
        self.asked.append((user, verb, resource, namespace))
        if (user, namespace) in self.edit or (verb in READS and (user, namespace) in self.view):
            return
        raise Refused(403, f"User '{user}' is not authorized with reason:  ({verb} {resource} in {namespace})")
