"""Both services against their own OpenAPI descriptions: whatever schemathesis makes of them, no 5xx."""

from __future__ import annotations

from contextlib import suppress

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode, openapi

EXAMPLES = 12


def operations(url):
    schema = openapi.from_url(f"{url}/openapi.json")
    found = [result.ok() for result in schema.get_all_operations()]
    return {f"{operation.method.upper()} {operation.path}": operation for operation in found}


def asked(operation, mode):
    """Statuses that drawn calls of an operation are answered with."""
    statuses = set()

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def ask(case):
        response = case.call()
        statuses.add(response.status_code)
        assert response.status_code < 500, (operation.label, response.status_code, response.text[:500])

    with suppress(Unsatisfiable):  # raised where nothing about an operation can be wrong
        ask()
    return statuses


@pytest.mark.parametrize("service", ["predictor", "ledger"])
@pytest.mark.parametrize("mode", list(GenerationMode), ids=str)
def test_no_call_that_fits_or_breaks_the_description_makes_a_service_fail(world, service, mode):
    found = operations(getattr(world, service).url)
    statuses = {name: asked(operation, mode) for name, operation in found.items()}
    if service == "predictor":
        assert all(seen for name, seen in statuses.items() if name.startswith("POST"))
        decided = statuses["POST /v1/models/{model_name}:predict"]
        assert (200 in decided) == (mode is GenerationMode.POSITIVE)
    assert httpx.get(f"{world.predictor.url}/v2/health/ready").status_code == 200


def test_the_predictors_description_has_the_endpoints_of_the_contract(world):
    names = set(operations(world.predictor.url))
    assert names >= {"POST /v1/models/{model_name}:predict", "POST /v2/models/{model_name}/infer", "GET /metrics"}
    assert not [name for name in names if "repository" in name or "explain" in name]
