"""What OpenRLHF, slime and NeMo-Gym send, and get; what was not judged is never a 0 they would train on."""

from __future__ import annotations

import pytest

from stepgauge import load
from stepgauge.serve import create_app
from tests.serve.test_server import Slow, ask


@pytest.fixture(scope="module")
def app():
    return create_app({"math": load("math"), "arithmetic": load("arithmetic"), "slow": Slow()})


PROMPT = "<|im_start|>user\nWhat is 3 * 12?<|im_end|>\n<|im_start|>assistant\n"


def test_openrlhf(app):
    """Its request as its worker sends it: the query holds the prompt, and special tokens."""
    answers = ["3 * 12 = 36. The answer is 36.<|im_end|>", "The answer is 35.</s>"]
    body = {"query": [PROMPT + a for a in answers], "prompts": [PROMPT] * 2, "labels": ["36", 36]}
    answer = ask(app, "POST", "/get_reward", json=body).json()
    assert answer == {"rewards": [1.0, 0.0], "scores": [1.0, 0.0], "extra_logs": {"not_judged": 0}}
    answer = ask(app, "POST", "/get_reward?scorer=arithmetic&abstain=-1", json={"query": ["2 + 2 = 4.", "Hm."]}).json()
    assert answer == {"rewards": [1.0, -1.0], "scores": [1.0, -1.0], "extra_logs": {"not_judged": 1}}


@pytest.mark.parametrize(
    ("path", "body", "status", "says"),
    [
        ("/get_reward", {"query": ["Hm."]}, 409, "add ?abstain=NUMBER"),
        ("/get_reward", {"query": ["a"], "prompts": []}, 400, "pair up"),
        ("/get_reward", {"query": ["a"], "labels": ["1", "2"]}, 400, "pair up"),
        ("/get_reward?scorer=x", {"query": ["a"]}, 404, "no scorer"),
        ("/get_reward?abstain=x", {"query": ["a"]}, 422, "valid number"),
        ("/slime", {"response": "Hm."}, 409, "no_gold"),
        ("/slime", {"prompt": "p"}, 422, "Field required"),
    ],
)
def test_refusals(app, path, body, status, says):
    response = ask(app, "POST", path, json=body)
    assert response.status_code == status
    assert says in response.text


def test_slime(app):
    chat = [{"role": "system", "content": "s"}, {"role": "user", "content": "What is 3 * 12?"}]
    for prompt in ("What is 3 * 12?", chat):
        body = {"prompt": prompt, "response": "It is \\boxed{36}.<|im_end|>", "label": "36"}
        assert ask(app, "POST", "/slime", json=body).json() == 1.0
    assert ask(app, "POST", "/slime", json=body | {"label": 37}).json() == 0.0
    assert ask(app, "POST", "/slime?abstain=0.5", json={"response": "x"}).json() == 0.5


def gym(text, **fields):
    message = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}
    thought = {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "The answer is 1."}]}
    return {
        "responses_create_params": {"input": [{"role": "user", "content": [{"type": "input_text", "text": "3*12?"}]}]},
        "response": {"id": "r", "output": [thought, message]},
        **fields,
    }


def test_nemo_gym(app):
    answer = ask(app, "POST", "/verify", json=gym("The answer is 36.", expected_answer="36", uuid="u")).json()
    assert (answer["reward"], answer["mask_sample"], answer["failure_kind"]) == (1.0, False, None)
    assert (answer["uuid"], answer["expected_answer"], answer["response"]["id"]) == ("u", "36", "r")
    answer = ask(app, "POST", "/verify", json=gym("The answer is 35.", expected_answer="36")).json()
    assert (answer["reward"], answer["mask_sample"], answer["failure_kind"]) == (0.0, False, None)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (gym("The answer is 36."), "no_gold"),
        (gym("The answer is 36.", gold={"a": 1}), "unparsed"),
        ({"responses_create_params": {}, "response": {"output": "x"}}, "no_gold"),
        ({"responses_create_params": {"input": 3}, "response": {}}, "no_gold"),
    ],
)
def test_nemo_gym_masks_what_was_not_judged(app, body, kind):
    response = ask(app, "POST", "/verify", json=body)
    assert response.status_code == 200
    answer = response.json()
    assert (answer["mask_sample"], answer["failure_kind"]) == (True, kind)
    assert answer["failure_reason"]


def test_nemo_gym_masks_a_failure(app):
    body = gym("x", gold="1") | {"responses_create_params": {"input": "break"}}
    answer = ask(app, "POST", "/verify?scorer=slow", json=body).json()
    assert (answer["mask_sample"], answer["failure_reason"]) == (True, "RuntimeError: broken")
