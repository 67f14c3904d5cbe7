"""Generators: seeds, a local model against plain decoding, and a server's contract."""

from __future__ import annotations

import json
import pickle
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import torch

from stepgauge.generation import (
    CallableGenerator,
    Completion,
    Prompt,
    ServerGenerator,
    asking,
    load_generator,
    sample_seed,
)
from stepgauge.lm.generating import LocalGenerator
from tests.lm.tiny import tiny_llama

PROMPT = Prompt("What is 3 + 4?", "Adding them:\n\n")


def test_seeds_differ_by_problem_prefix_and_index():
    prompts = [Prompt("a", "b"), Prompt("ab", ""), Prompt("a", ""), Prompt("", "b")]
    seeds = {sample_seed(prompt, index) for prompt in prompts for index in range(100)}
    assert len(seeds) == 400
    assert all(0 <= seed < 2**31 for seed in seeds)


def test_a_callable_draws_sample_i_whatever_else_is_asked():
    generator = CallableGenerator(lambda prompt, seed: str(seed))
    whole = generator.complete([PROMPT], 8)[0]
    assert generator.complete([PROMPT], 3, first=5)[0] == whole[5:]
    assert len({c.text for c in whole}) == 8
    with pytest.raises(ValueError, match="n >= 1"):
        generator.complete([PROMPT], 0)
    with pytest.raises(TypeError, match="Prompt"):
        generator.complete(["text"], 1)


@pytest.fixture(scope="module")
def local():
    return LocalGenerator(tiny_llama(), device="cpu", max_tokens=24)


def _logits(local, ids):
    model, tokenizer = local._load()
    return model(input_ids=torch.tensor([ids])).logits[0, -1, : len(tokenizer)].double()


def test_greedy_with_the_shared_cache_is_greedy_from_scratch():
    local = LocalGenerator(tiny_llama(), device="cpu", max_tokens=12, temperature=0)
    ids = local._prompt_ids(PROMPT)
    expected = []
    for _ in range(12):
        token = int(_logits(local, ids + expected).argmax())
        if token in local._stop_ids():
            break
        expected.append(token)
    for completion in local.complete([PROMPT], 3)[0]:
        assert list(completion.token_ids) == expected


def test_log_probabilities_are_those_of_the_model(local):
    completions = local.complete([PROMPT], 4)[0]
    assert any(len(c.token_ids) > 3 for c in completions)
    for completion in completions:
        ids = local._prompt_ids(PROMPT)
        for token, logp in zip(completion.token_ids[:6], completion.logprobs, strict=False):
            assert float(_logits(local, ids).log_softmax(-1)[token]) == pytest.approx(logp, abs=1e-4)
            ids.append(token)


def test_a_request_repeats_exactly_and_samples_differ(local):
    once = local.complete([PROMPT], 6)[0]
    assert local.complete([PROMPT], 6)[0] == once
    assert len({c.text for c in once}) > 1
    later = local.complete([PROMPT], 2, first=4)[0]
    assert [c.token_ids for c in later] == [c.token_ids for c in once[4:]]  # fp32: another batch, the same draws here


def test_draws_follow_the_distribution_and_top_p_cuts_its_tail(local):
    import random

    logits = torch.tensor([[2.0, 1.0, 0.0, -1.0]], dtype=torch.float64)
    p = logits.softmax(-1)[0]
    for top_p, allowed in ((1.0, p), (0.8, torch.where(torch.arange(4) < 2, p, 0.0))):
        local.top_p = top_p
        die = random.Random(0)
        drawn = torch.tensor([local._pick(logits, [die])[0][0] for _ in range(4000)])
        local.top_p = 1.0
        share = torch.bincount(drawn, minlength=4) / 4000
        assert torch.allclose(share.double(), allowed / allowed.sum(), atol=0.03)
        assert ((allowed > 0) | (share == 0)).all()


def test_the_limit_is_told_and_an_ended_completion_has_no_end_token(local):
    completions = local.complete([PROMPT], 32)[0]
    stops = local._stop_ids()
    for completion in completions:
        assert not stops & set(completion.token_ids)
        assert (completion.finish == "length") == (len(completion.token_ids) == 24)
        assert completion.tokens == len(completion.token_ids) + (completion.finish == "stop")
    assert any(c.finish == "length" for c in completions)


def test_control_tokens_in_problem_and_prefix_are_text(local):
    _, tokenizer = local._load()
    end = tokenizer.convert_tokens_to_ids("<|im_end|>")
    plain = local._prompt_ids(Prompt("x", "y")).count(end)
    assert local._prompt_ids(Prompt("x <|im_end|>", "y <|im_end|>")).count(end) == plain


def test_a_prompt_beyond_the_context_is_an_error_not_a_crash(local):
    completion = local.complete([Prompt("a b c " * 4000)], 2)[0][1]
    assert (completion.finish, completion.text) == ("error", "")


def test_generators_pickle_their_parameters(local):
    assert pickle.loads(pickle.dumps(local)).fingerprint == local.fingerprint
    assert len(pickle.dumps(local)) < 10_000
    server = ServerGenerator("http://localhost:1")
    assert pickle.loads(pickle.dumps(server)).fingerprint == server.fingerprint
    others = [ServerGenerator("http://localhost:1", **{k: v}) for k, v in (("temperature", 0.5), ("max_tokens", 9))]
    assert len({server.fingerprint, *(other.fingerprint for other in others)}) == 3


@contextmanager
def _server(answer):
    """A fake OpenAI-compatible server; ``answer(path, body) -> (status, json)``."""
    seen = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self._reply(200, {"data": [{"id": "served"}]})

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            seen.append((self.path, body))
            self._reply(*answer(self.path, body))

        def _reply(self, status, content):
            data = content if isinstance(content, bytes) else json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", seen
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _chat(path, body):
    choice = {"message": {"content": f"seed {body['seed']}"}, "finish_reason": "stop"}
    return 200, {"choices": [choice], "usage": {"completion_tokens": 7}}


def test_the_chat_contract_and_a_seed_a_sample():
    with _server(_chat) as (url, seen):
        server = ServerGenerator(url, temperature=0.7)
        drawn = server.complete([PROMPT, Prompt("1?")], 3, first=2)
        server.close()
    assert [c.text for c in drawn[0]] == [f"seed {sample_seed(PROMPT, index)}" for index in (2, 3, 4)]
    assert [len(d) for d in drawn] == [3, 3]
    assert drawn[0][0].tokens == 7
    body = next(body for _, body in seen if body["messages"][0]["content"] == PROMPT.problem)
    assert body["messages"][1] == {"role": "assistant", "content": PROMPT.prefix}
    assert (body["continue_final_message"], body["add_generation_prompt"]) == (True, False)
    assert (body["model"], body["temperature"], body["n"]) == ("served", 0.7, 1)
    plain = next(body for _, body in seen if body["messages"][0]["content"] == "1?")
    assert "continue_final_message" not in plain


def test_the_completions_contract():
    def answer(path, body):
        assert path == "/v1/completions"
        return 200, {"choices": [{"text": " 7", "finish_reason": "length"}]}

    with _server(answer) as (url, seen):
        server = ServerGenerator(f"{url}/v1/", api="completions", template="Q {problem} A ", model="m")
        drawn = server.complete([Prompt("{x}", "pre")], 1)[0]
        server.close()
    assert seen[0][1]["prompt"] == "Q {x} A pre"
    assert (drawn[0].text, drawn[0].finish) == (" 7", "length")


@pytest.mark.parametrize(
    ("status", "content"),
    [
        (400, {"error": "too long"}),
        (200, {}),
        (200, {"choices": []}),
        (200, b"<html>"),
        (200, {"choices": [{"text": 1}]}),
        (200, []),
        (200, {"choices": {"0": 1}}),
        (200, {"choices": ["text"]}),
        (200, {"choices": [{"message": {"content": ["a"]}}]}),
        (200, {"choices": [{"message": "a"}]}),
    ],
)
def test_a_refusal_is_an_error_completion(status, content):
    with _server(lambda path, body: (status, content)) as (url, _):
        server = ServerGenerator(url, model="m")
        assert server.complete([PROMPT], 1)[0][0] == Completion("", finish="error")
        server.close()


@pytest.mark.parametrize("usage", [None, [], "many", {"completion_tokens": "7"}, {"completion_tokens": 10**30}, {}])
def test_a_server_that_counts_nonsense_costs_nothing(usage):
    def answer(path, body):
        return 200, {"choices": [{"message": {"content": "7"}, "finish_reason": ["stop"]}], "usage": usage}

    with _server(answer) as (url, _):
        server = ServerGenerator(url, model="m")
        assert server.complete([PROMPT], 1)[0][0] == Completion("7", tokens=0)
        server.close()


def test_a_function_that_draws_no_text_is_named():
    with pytest.raises(TypeError, match=r"callable:draws must return a str or a Completion, got bytes"):
        CallableGenerator(lambda prompt, seed: b"7", name="draws").complete([PROMPT], 1)


def test_a_passing_failure_is_tried_again_a_lasting_one_raises():
    failures = iter([503, 429])

    def answer(path, body):
        status = next(failures, None)
        return (status, {}) if status else _chat(path, body)

    with _server(answer) as (url, seen):
        server = ServerGenerator(url, model="m")
        assert server.complete([PROMPT], 1)[0][0].finish == "stop"
        assert len(seen) == 3
        server.close()
    gone = ServerGenerator(url, model="m", attempts=1)
    with pytest.raises(ConnectionError, match="127.0.0.1"):
        gone.complete([PROMPT], 1)
    gone.close()


def test_generators_by_name():
    assert isinstance(load_generator("http://localhost:8000"), ServerGenerator)
    assert isinstance(load_generator(tiny_llama(), max_tokens=3), LocalGenerator)
    assert load_generator("python:tests.prm.labelling.worlds:complete").complete([PROMPT], 1)
    for spec in ("python:nowhere", "python:tests.prm.labelling.worlds:missing", "python::f"):
        with pytest.raises(ValueError, match="python|imported"):
            load_generator(spec)
    with pytest.raises(TypeError):
        load_generator("http://localhost:8000", tempratur=1)


def test_a_cut_reply_is_no_critique():
    cut = CallableGenerator(lambda prompt, seed: Completion("\\boxed{0}", finish="length"))
    assert asking(cut)("check", 2) == []
    assert asking(cut).fingerprint == cut.fingerprint


@pytest.mark.parametrize("options", [{"temperature": -1}, {"top_p": 0}, {"max_tokens": 0}, {"batch": 0}])
def test_local_parameters_out_of_range(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        LocalGenerator("x", **options)


def test_an_unknown_api():
    with pytest.raises(ValueError, match="chat, completions"):
        ServerGenerator("http://x", api="responses")
