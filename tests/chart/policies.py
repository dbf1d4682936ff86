"""Network policies, read as the network plugin reads them: who may open a connection to whom."""

from typing import Any

from rendering import render, selects


def own(role: str) -> dict[str, Any]:
    labels = {
        "app.kubernetes.io/name": "shadowprice",
        "app.kubernetes.io/instance": "camp",
        "app.kubernetes.io/component": role,
    }
    return {"metadata": {"labels": labels}, "namespace": {"kubernetes.io/metadata.name": "growth"}}


def foreign(namespace: str, **labels: str) -> dict[str, Any]:
    return {
        "metadata": {"labels": {name.replace("_", "-"): value for name, value in labels.items()}},
        "namespace": {"kubernetes.io/metadata.name": namespace},
    }


def released(values: dict[str, Any], target: dict[str, Any], namespace: str, port: int) -> bool:
    """Whether a pod may open a connection to a namespace: without a policy of egress everywhere."""
    policies = [entry["spec"] for entry in render(values) if entry["kind"] == "NetworkPolicy"]
    policies = [spec for spec in policies if selects(spec["podSelector"], target) and "Egress" in spec["policyTypes"]]
    called = foreign(namespace)
    return not policies or any(
        port in {entry["port"] for entry in rule["ports"]} and any(peer(each, called) for each in rule.get("to", [{}]))
        for spec in policies
        for rule in spec.get("egress", [])
    )


def admitted(values: dict[str, Any], caller: dict[str, Any], target: dict[str, Any], port: int) -> bool:
    """Whether a connection is let in: without a policy of the target everything is, else what any of them allows."""
    policies = [entry["spec"] for entry in render(values) if entry["kind"] == "NetworkPolicy"]
    policies = [spec for spec in policies if selects(spec["podSelector"], target) and "Ingress" in spec["policyTypes"]]
    if not policies:
        return True
    for spec in policies:
        for rule in spec.get("ingress", []):
            ports = {entry["port"] for entry in rule.get("ports", [])}
            if (not ports or port in ports) and any(peer(each, caller) for each in rule.get("from", [{}])):
                return True
    return False


def peer(rule: dict[str, Any], caller: dict[str, Any]) -> bool:
    """Whether a peer of a rule is this pod; pods have no address here, so a block of addresses is none of them."""
    if not rule or "ipBlock" in rule:
        return not rule
    home = caller["namespace"]["kubernetes.io/metadata.name"] == "growth"
    spaces = rule.get("namespaceSelector")
    inside = home if spaces is None else spaces.get("matchLabels", {}).items() <= caller["namespace"].items()
    return inside and selects(rule.get("podSelector", {}), caller)
