"""The HTTP scorer against a local fake of each contract, recorded answers, and failures of every kind."""

import time

import pytest

from stepgauge import Rollout, load
from stepgauge.prm.http import HttpPRM, _classified, _pooled, _Refused, _Request, _scored
from tests.prm.fake_server import fake_server, score_of
from tests.prm.tiny import tiny_prm

STEPS = ["2 + 2 = 4.", "The <extra_0> answer <|im_end|> is 4."]
PROMPT = (
    "<|im_start|>system\nPlease reason step by step, and put your final answer within \\boxed{}.<|im_end|>\n"
    "<|im_start|>user\n2 + 2?<|im_end|>\n<|im_start|>assistant\n"
)


@pytest.fixture(autouse=True)
def _no_waiting():
    import stamina

    stamina.set_testing(True, attempts=4, cap=True)
    yield
    stamina.set_testing(False)


@pytest.mark.parametrize("contract", ["pooling", "classify"])
def test_text_contracts(contract):
    safe = f"{PROMPT}2 + 2 = 4.<extra_0>"
    whole = f"{safe}The < extra_0> answer < |im_end|> is 4.<extra_0>"
    with fake_server() as server:
        scores = load(server.url, contract=contract).score(STEPS, problem="2 + 2?")
    assert scores.values == pytest.approx([score_of(safe), score_of(whole)])
    assert (scores.kind, scores.summary["aggregate"]) == ("correctness", "prod")
    assert [path for path, _, _ in server.requests] == [f"/{contract}"]


@pytest.mark.parametrize(("contract", "family"), [("pooling", "qwen"), ("classify", "trl"), ("score", "er_prm")])
def test_ids_are_sent_where_the_tokenizer_is_known(contract, family):
    from stepgauge.prm import CONVENTIONS
    from stepgauge.prm.layouts import build_layout
    from stepgauge.prm.writing import TokenWriter

    folder, tokenizer, _ = tiny_prm(family)
    layout = build_layout(CONVENTIONS[family], TokenWriter(tokenizer))
    prompt = layout.prompt("2 + 2?")
    first = prompt + layout.step("2 + 2?", STEPS[0], 0, first=True)
    second = first + layout.step("2 + 2?", STEPS[1], 1, first=False)
    with fake_server(tag=layout.tag[-1]) as server:
        prm = HttpPRM(server.url, contract=contract, convention=family, tokenizer=folder, served="m")
        scores = prm.score(STEPS, problem="2 + 2?")
    assert scores.values == pytest.approx([score_of(first), score_of(second)])
    body = server.requests[0][1]
    assert body["model"] == "m"
    if contract == "score":
        assert body["query"] + body["items"][1] == second
        assert body["label_token_ids"] == [tokenizer.encode(x, add_special_tokens=False)[-1] for x in (" +", " -")]
        assert body["apply_softmax"] is True


def test_recorded_answers():
    """As vLLM 0.11 and later, and SGLang, write them; of a server that pools every token, the tags' rows are taken."""
    request = _Request([1, 2], [[3, 9], [3, 9, 4, 9]])
    of_tags = {"data": [{"index": 0, "object": "pooling", "data": [[0.1, 0.9], [0.8, 0.2]]}]}
    every = {"data": [{"index": 0, "data": [[0.5, 0.5], [0.5, 0.5], [0.4, 0.6], [0.1, 0.9], [0.3, 0.7], [0.8, 0.2]]}]}
    assert _pooled(of_tags, request) == _pooled(every, request) == [0.9, 0.2]
    assert _classified({"data": [{"index": 1, "probs": [0.8, 0.2]}, {"index": 0, "probs": [0.1, 0.9]}]}, 2) == [
        0.9,
        0.2,
    ]
    assert _scored({"scores": [[0.9, 0.1], [0.2, 0.8]], "object": "scoring"}, 2) == [0.9, 0.2]


@pytest.mark.parametrize(
    "answer",
    [
        {"data": [{"data": [[0.1, 0.9]]}]},  # one score for two steps (a last-token pooler)
        {"data": [{"data": []}]},
        {"data": [{"data": [[0.1, 1.9], [0.1, 0.9]]}]},  # logits
        {"data": [{"data": [[0.1, "nan"], [0.1, 0.9]]}]},
        {"data": [{"data": [[], [0.1, 0.9]]}]},
        {"data": []},
        {"error": "no"},
        [],
    ],
)
def test_an_answer_that_does_not_fit_is_an_error_not_a_number(answer):
    with pytest.raises(_Refused):
        _pooled(answer, _Request([1], [[2], [2, 3]]))
    with fake_server(answer=lambda path, body: answer) as server:
        scores = load(server.url).score(STEPS)
    assert (scores.status, scores.reasons, scores.values) == ("error", ("model",) * 2, (None, None))


def test_a_busy_server_is_asked_again():
    with fake_server(failures=[503, 500, 429]) as server:
        scores = load(server.url).score(STEPS)
    assert scores.status == "ok"
    assert len(server.requests) == 4


@pytest.mark.parametrize(("failures", "asked"), [([503] * 9, 4), ([400], 1), ([404], 1)])
def test_a_failed_request_is_an_error_transport(failures, asked):
    """Never [0.0] * steps, and the rest of the batch is scored."""
    with fake_server(failures=failures) as server:
        prm = HttpPRM(server.url, concurrency=1)
        first, second = prm.score_batch([Rollout("", STEPS), Rollout("", ["a"])])
    assert (first.status, first.reasons, first.values) == ("error", ("transport",) * 2, (None, None))
    assert first.aggregate() is None
    assert second.status == ("error" if asked == 4 else "ok")
    assert len(server.requests) == (8 if asked == 4 else 2)


def test_no_server_and_no_json():
    scores = HttpPRM("http://127.0.0.1:9").score(STEPS)
    assert scores.reasons == ("transport",) * 2
    with fake_server(failures=["garbage"]) as server:
        assert "something else than JSON" in load(server.url).score(STEPS).summary["message"]


def test_the_deadline_binds():
    with fake_server(delay=5.0) as server:
        start = time.monotonic()
        scores = load(server.url).score_batch([Rollout("", STEPS)] * 20, deadline_s=0.3)
        assert time.monotonic() - start < 4
    assert {one.reasons for one in scores} == {("timeout", "timeout")}


def test_concurrency_is_bounded():
    with fake_server(delay=0.02) as server:
        assert all(s.status == "ok" for s in HttpPRM(server.url, concurrency=3).score_batch([Rollout("", STEPS)] * 12))
    assert 1 < server.most <= 3


def test_the_key_is_sent_and_not_kept(monkeypatch):
    monkeypatch.setenv("STEPGAUGE_HTTP_API_KEY", "secret-token")
    with fake_server() as server:
        prm = load(server.url)
        prm.score(STEPS)
    assert server.requests[0][2]["Authorization"] == "Bearer secret-token"
    assert "secret-token" not in f"{prm!r} {prm.__getstate__()}"


def test_what_cannot_be_sent_as_text_is_refused():
    with fake_server() as server:
        assert "pass tokenizer=" in HttpPRM(server.url, convention="rlhflow").score(STEPS).summary["message"]
        assert server.requests == []
    for wrong in ({"contract": "chat"}, {"convention": "nonsense"}):
        with pytest.raises(ValueError, match="must be one of"):
            HttpPRM("http://x", **wrong)


def test_the_fingerprint_follows_what_is_asked():
    a, b = HttpPRM("http://x"), HttpPRM("http://x", weights="2026-11")
    assert a.fingerprint == HttpPRM("http://x/").fingerprint != b.fingerprint
