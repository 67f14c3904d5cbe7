"""Requests made up from the server's own description: never a 500, and answers that keep to it."""

from __future__ import annotations

import warnings

import pytest
from hypothesis import HealthCheck, settings

from stepgauge import load
from stepgauge.serve import create_app
from tests.serve.test_server import Slow

schemathesis = pytest.importorskip("schemathesis")

APP = create_app({"arithmetic": load("arithmetic"), "slow": Slow()}, max_rollouts=8, deadline_s=20)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of schemathesis' own imports
    SCHEMA = schemathesis.openapi.from_asgi("/openapi.json", APP)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@SCHEMA.parametrize()
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
def test_made_up_requests(case):
    response = case.call()
    assert response.status_code < 500, response.text
    case.validate_response(
        response,
        excluded_checks=[
            schemathesis.checks.unsupported_method,  # 405 comes from the framework
            schemathesis.checks.positive_data_acceptance,  # well-formed texts that cannot be read are refused
        ],
    )
