"""The routes, their guards, and what happens under load, on deadlines and when clients leave."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import asynccontextmanager

import httpx
import pytest

from stepgauge import Rollout, Scorer, StepScores, load
from stepgauge.scoring import score_each
from stepgauge.serve import create_app
from stepgauge.serve.batcher import Batcher, QueueFull

GOOD = {"problem": "3*12+1?", "steps": ["3 * 12 = 36.", "36 + 1 = 38."], "gold": "37", "id": "a"}


class Slow(Scorer):
    """Takes a while a rollout, and remembers its batches."""

    name = "slow"
    kind = "value"

    def __init__(self, seconds=0.0):
        self.seconds = seconds
        self._batches = []

    def score_batch(self, rollouts, *, deadline_s=None, progress=None):
        self._batches.append([rollout.problem for rollout in rollouts])
        return score_each(self._judge, rollouts, kind="value", deadline_s=deadline_s, progress=progress)

    def _judge(self, rollout):
        time.sleep(self.seconds)
        if rollout.problem == "break":
            raise RuntimeError("broken")
        return (
            StepScores((0.25,) * len(rollout.steps), "value")
            if rollout.steps
            else StepScores.abstain(0, "value", "no_claim")
        )


@asynccontextmanager
async def client_of(app, **headers):
    """A client of the running application."""
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(
            transport=httpx.ASGITransport(app, raise_app_exceptions=False), base_url="http://t", headers=headers
        ) as client,
    ):
        yield client


def ask(app, method, path, headers=None, **kwargs):
    """One request."""

    async def go():
        async with client_of(app, **(headers or {})) as client:
            return await client.request(method, path, **kwargs)

    return asyncio.run(go())


@pytest.fixture
def app():
    return create_app({"arithmetic": load("arithmetic"), "math": load("math"), "slow": Slow()})


def test_scores_are_those_of_the_scorer(app):
    rows = [GOOD, {"problem": "?", "text": "2 + 2 = 4.\n\n2 + 2 = 5."}]
    answer = ask(app, "POST", "/v1/score", json={"rollouts": rows}).json()
    assert answer["scorer"] == "arithmetic"
    first, second = answer["results"]
    assert (first["id"], first["values"], first["first_error"]) == ("a", [1.0, 0.0], 1)
    assert second["values"] == [1.0, 0.0]
    answer = ask(app, "POST", "/v1/score", json={"rollouts": rows, "scorer": "math"}).json()
    assert [result["status"] for result in answer["results"]] == ["ok", "abstain"]
    assert answer["results"][0]["values"] == [None, 0.0]
    assert ask(app, "POST", "/v1/score", json={"rollouts": []}).json()["results"] == []


def test_one_bad_rollout_does_not_spoil_the_request(app):
    rows = [GOOD, {"problem": 3}, "no object", {"problem": "break", "steps": ["x"]}, GOOD]
    response = ask(app, "POST", "/v1/score", json={"rollouts": rows[:2] + rows[3:], "scorer": "slow"})
    results = response.json()["results"]
    assert [result["status"] for result in results] == ["ok", "error", "error", "ok"]
    assert "problem must be a string" in results[1]["summary"]["message"]
    assert results[2]["summary"] == {"reason": "internal", "message": "RuntimeError: broken"}
    assert ask(app, "POST", "/v1/score", json={"rollouts": rows}).status_code == 422


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"rollouts": [GOOD], "scorer": "nothing"}, 404),
        ({"rollouts": [GOOD] * 1025}, 413),
        ({"rollouts": "x"}, 422),
        ({}, 422),
        ({"rollouts": [GOOD], "deadline_s": -1}, 422),
        ({"rollouts": [GOOD], "deadline_s": True}, 422),
        ({"rollouts": [GOOD], "deadline_s": "30"}, 422),
    ],
)
def test_bad_requests(app, body, status):
    response = ask(app, "POST", "/v1/score", json=body)
    assert response.status_code == status
    assert response.json()["detail"]


def test_a_body_that_is_too_large():
    app = create_app({"slow": Slow()}, max_body_mb=0.01)
    assert ask(app, "POST", "/v1/score", json={"rollouts": [{"text": "x" * 20_000}]}).status_code == 413


def test_no_scorer():
    with pytest.raises(ValueError, match="at least one scorer"):
        create_app({})


def test_shapes_of_vllm(app):
    pooled = ask(app, "POST", "/pooling", json={"input": ["2 + 2 = 4.\n\nSo it is.\n\n2 + 2 = 5.", "x"]}).json()
    assert [entry["data"] for entry in pooled["data"]] == [[[0.0, 1.0], None, [1.0, 0.0]], [None]]
    assert [entry["status"] for entry in pooled["data"]] == ["ok", "abstain"]
    chat = [{"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "2 + 2 = 4."}]
    pooled = ask(app, "POST", "/pooling", json={"messages": chat}).json()
    assert pooled["data"][0]["data"] == [[0.0, 1.0]]
    classes = ask(app, "POST", "/classify", json={"input": ["2 + 2 = 4.", "2 + 2 = 5.", "x"]}).json()["data"]
    assert [entry["label"] for entry in classes] == ["right", "wrong", "abstain"]
    assert [entry["probs"] for entry in classes] == [[0.0, 1.0], [1.0, 0.0], None]
    body = {"queries": "2+2?", "documents": ["2 + 2 = 4.", "2 + 2 = 5.", "x"]}
    assert [e["score"] for e in ask(app, "POST", "/score", json=body).json()["data"]] == [1.0, 0.0, None]
    body = {"text_1": ["p", "q"], "text_2": ["x"]}
    assert ask(app, "POST", "/score", json=body).status_code == 400
    assert ask(app, "POST", "/score", json={"text_1": "p"}).status_code == 400
    assert ask(app, "POST", "/pooling", json={}).status_code == 400
    assert ask(app, "POST", "/pooling", json={"input": [[1, 2]]}).status_code == 422


def test_token_guards_everything_but_health_and_metrics(app):
    app = create_app({"slow": Slow()}, token="secret")
    for path in ("/v1/score", "/pooling", "/v1/models", "/docs", "/openapi.json", "/nothing"):
        method = "POST" if path in ("/v1/score", "/pooling") else "GET"
        for header in (None, {"Authorization": "Bearer wrong"}, {"Authorization": "secret"}, {"Authorization": ""}):
            response = ask(app, method, path, headers=header)
            assert response.status_code == 401, path
            assert response.headers["www-authenticate"] == "Bearer"
        assert ask(app, method, path, headers={"Authorization": "Bearer secret"}).status_code != 401
    page = ask(app, "GET", "/")
    assert (page.status_code, "unsafe" in page.headers["content-security-policy"]) == (200, False)
    assert "stepgauge" in page.text
    assert ask(app, "GET", "/health").json() == {"status": "ok"}
    assert ask(app, "GET", "/metrics").status_code == 200


def test_request_ids(app):
    assert ask(app, "GET", "/health", headers={"X-Request-Id": "run-7.3"}).headers["x-request-id"] == "run-7.3"
    forged = ask(app, "GET", "/health", headers={"X-Request-Id": "a b<script>"}).headers["x-request-id"]
    assert forged != "a b<script>"
    assert len(forged) == 16


def test_metrics_count(app):
    async def go():
        async with client_of(app) as client:
            await client.post("/v1/score", json={"rollouts": [GOOD, {"problem": 3}]})
            await client.post("/v1/score", json={"rollouts": [GOOD], "scorer": "nothing"})
            return (await client.get("/metrics")).text

    text = asyncio.run(go())
    assert 'stepgauge_requests_total{route="/v1/score",status="200"} 1.0' in text
    assert 'stepgauge_requests_total{route="/v1/score",status="404"} 1.0' in text
    assert 'stepgauge_rollouts_total{scorer="arithmetic",status="ok"} 1.0' in text
    assert 'stepgauge_rollouts_total{scorer="arithmetic",status="unparsed"} 1.0' in text
    assert 'stepgauge_queue_rollouts{scorer="slow"} 0.0' in text


def test_requests_share_batches_and_duplicates_are_scored_once():
    scorer = Slow(0.02)
    app = create_app({"slow": scorer})

    async def go():
        async with client_of(app) as client:
            bodies = [{"rollouts": [{"problem": f"p{n % 5}", "steps": ["x"]}]} for n in range(40)]
            return await asyncio.gather(*(client.post("/v1/score", json=body) for body in bodies))

    responses = asyncio.run(go())
    assert {json.dumps(response.json()["results"][0]["values"]) for response in responses} == {"[0.25]"}
    scored = [problem for batch in scorer._batches for problem in batch]
    assert sorted(scored) == ["p0", "p1", "p2", "p3", "p4"]
    assert len(scorer._batches) <= 2


def test_equal_rollouts_with_other_columns_are_not_one():
    """What a row has besides (a reference) may change its score."""
    scorer = Slow()
    rows = [{"problem": "p", "steps": ["x"], "reference": value} for value in (1, 2, 1)]
    ask(create_app({"slow": scorer}), "POST", "/v1/score", json={"rollouts": rows})
    assert [len(batch) for batch in scorer._batches] == [2]


def test_a_full_queue_says_when_to_come_back():
    app = create_app({"slow": Slow(0.05)}, max_queue=4)

    async def go():
        async with client_of(app) as client:
            bodies = [{"rollouts": [{"problem": f"p{n}", "steps": ["x"]}]} for n in range(30)]
            return await asyncio.gather(*(client.post("/v1/score", json=body) for body in bodies))

    responses = asyncio.run(go())
    assert {response.status_code for response in responses} == {200, 503}
    full = next(response for response in responses if response.status_code == 503)
    assert 1 <= int(full.headers["retry-after"]) <= 60
    assert "no more are taken now" in full.json()["detail"]


def test_the_deadline_of_one_request_is_not_that_of_another():
    app = create_app({"slow": Slow(0.15)}, max_tokens=1)

    async def go():
        async with client_of(app) as client:
            rows = [{"problem": f"p{n}", "steps": ["x"]} for n in range(3)]
            return await asyncio.gather(
                client.post("/v1/score", json={"rollouts": rows, "deadline_s": 0.2}),
                client.post("/v1/score", json={"rollouts": rows[1:]}),
            )

    hasty, patient = (response.json()["results"] for response in asyncio.run(go()))
    assert [result["status"] for result in hasty] == ["ok", "error", "error"]
    assert hasty[1]["summary"]["reason"] == "timeout"
    assert [result["status"] for result in patient] == ["ok", "ok"]


def test_work_of_a_client_that_left_is_dropped():
    scorer = Slow(0.1)

    async def go():
        batcher = Batcher(scorer, max_tokens=1)
        batcher.start()
        rollouts = [Rollout(f"p{n}", ("x",)) for n in range(20)]
        gone = asyncio.ensure_future(batcher.score(rollouts, deadline_s=60))
        await asyncio.sleep(0.15)
        gone.cancel()
        last = await batcher.score([Rollout("last", ("x",))], deadline_s=60)
        await batcher.close()
        return last

    assert asyncio.run(go())[0].values == (0.25,)
    problems = [problem for batch in scorer._batches for problem in batch]
    assert problems[-1] == "last"
    assert len(problems) <= 4


def test_closing_finishes_what_waits():
    async def go():
        batcher = Batcher(Slow(0.02), max_tokens=1)
        batcher.start()
        waiting = asyncio.ensure_future(batcher.score([Rollout(f"p{n}", ("x",)) for n in range(5)], deadline_s=60))
        await asyncio.sleep(0.01)
        await batcher.close()
        return await waiting

    assert [scores.status for scores in asyncio.run(go())] == ["ok"] * 5


def test_a_scorer_that_raises_is_an_error_and_the_next_batch_goes_on():
    class Broken(Slow):
        def score_batch(self, rollouts, *, deadline_s=None, progress=None):
            if any(rollout.problem == "break" for rollout in rollouts):
                raise RuntimeError("a bug")
            return super().score_batch(rollouts, deadline_s=deadline_s, progress=progress)

    async def go():
        batcher = Batcher(Broken())
        batcher.start()
        bad = await batcher.score([Rollout("break", ("x", "y"))], deadline_s=60)
        good = await batcher.score([Rollout("p", ("x",))], deadline_s=60)
        await batcher.close()
        return bad[0], good[0]

    bad, good = asyncio.run(go())
    assert (bad.status, bad.summary["message"]) == ("error", "RuntimeError: a bug")
    assert good.status == "ok"


def test_a_full_queue_of_the_batcher_takes_all_or_nothing():
    async def go():
        batcher = Batcher(Slow(), max_queue=2)
        with pytest.raises(QueueFull):
            await batcher.score([Rollout(f"p{n}", ("x",)) for n in range(3)], deadline_s=1)
        assert batcher.waiting == 0

    asyncio.run(go())


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/v1/score", '{"rollouts": [], "deadline_s": NaN}', 422),
        ("/v1/score", '{"rollouts": [], "deadline_s": Infinity}', 422),
        ("/slime?abstain=nan", '{"response": "x"}', 422),
        ("/slime", '{"response": "x", "label": NaN}', 422),
        ("/slime", '{"response": "\\ud800"}', 400),
        ("/verify", '{"responses_create_params": {}, "response": {}, "x": NaN}', 400),
        ("/verify", '{"responses_create_params": {}, "response": {}, "x": "\\ud800"}', 200),
        ("/verify", '{"responses_create_params": {}, "response": {}, "x": ' + "[" * 900 + "]" * 900 + "}", None),
        ("/v1/score", '{"rollouts": [{"problem": "p", "steps": ["x"], "m": ' + "[" * 900 + "]" * 900 + "}]}", None),
        ("/v1/score", '{"rollouts": [{"problem": "p", "steps": ["x"], "m": ' + "[" * 50_000 + "}]}", 400),
        ("/v1/score", '{"rollouts": [{"problem": "p", "steps": ["x"], "gold": ' + "9" * 5000 + "}]}", 400),
    ],
)
def test_bodies_that_json_should_not_hold(app, path, body, status):
    """NaN, lone surrogates, deep nesting, huge integers: refused or answered, never a 500."""
    response = ask(app, "POST", path, content=body, headers={"Content-Type": "application/json"})
    assert response.status_code < 500, response.text
    assert status is None or response.status_code == status, response.text
    if response.status_code != 200:
        assert response.json()["detail"]


@pytest.mark.parametrize("tail", [" " * 200_000 + "x", "</s>" * 50_000, "<|" * 100_000, "<|a" * 70_000 + "|>"])
def test_long_tails_of_a_response_cost_little(app, tail):
    start = time.monotonic()
    ask(app, "POST", "/slime?scorer=slow", json={"response": "The answer is 36." + tail})
    assert time.monotonic() - start < 2
