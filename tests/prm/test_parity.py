"""Each family against a second reading of its convention: whole strings, full logits, one forward pass a rollout."""

import json

import pytest
import torch
from safetensors.torch import load_file

from stepgauge import Rollout
from stepgauge.lm import model_folder
from stepgauge.prm import CONVENTIONS, MCPRM
from tests.prm.tiny import FAMILIES, tiny_prm

PROBLEM = "Janet has 16 eggs and eats 3. How many are left?"
STEPS = [
    "She starts with 16 eggs.",
    "She eats 3, so 16 - 3 = 13.",
    "Hence $13$ eggs + 0 are left.",
    "The answer is 13.",
]


def _states(model, ids):
    with torch.no_grad():
        return model.model(torch.tensor([ids])).last_hidden_state[0]


def _logits(model, ids):
    with torch.no_grad():
        return model(torch.tensor([ids])).logits[0]


def _tensors(folder):
    return load_file(f"{folder}/model.safetensors")


def _pair(logits, positive, negative):
    return float(logits[[positive, negative]].softmax(0)[0])


def math_shepherd(folder, tok, model):
    output = "\n".join(f"Step {k}: {step} ки" for k, step in enumerate(STEPS, 1))
    ids = tok(f"{PROBLEM} {output}").input_ids
    tag = tok.encode("ки")[-1]
    plus, minus = tok.encode("+ -")[1:]
    logits = _logits(model, ids)
    return [_pair(logits[at], plus, minus) for at, token in enumerate(ids) if token == tag]


def rlhflow(folder, tok, model):
    """As many passes as steps: the conversation so far with its last "+"; logits at -3 predict it."""
    plus, minus = tok.encode("+", add_special_tokens=False)[-1], tok.encode("-", add_special_tokens=False)[-1]
    scores, talk = [], []
    for index, step in enumerate(STEPS):
        talk += [{"role": "user", "content": f"{PROBLEM} {step}" if index == 0 else step}]
        talk += [{"role": "assistant", "content": "+"}]
        ids = tok(tok.apply_chat_template(talk, tokenize=False), add_special_tokens=False).input_ids
        assert ids[-2] == plus
        scores.append(_pair(_logits(model, ids)[-3], plus, minus))
    return scores


def qwen(folder, tok, model):
    text = (
        "<|im_start|>system\nPlease reason step by step, and put your final answer within \\boxed{}.<|im_end|>\n"
        f"<|im_start|>user\n{PROBLEM}<|im_end|>\n<|im_start|>assistant\n{'<extra_0>'.join(STEPS)}<extra_0><|im_end|>\n"
    )
    ids = tok(text, add_special_tokens=False).input_ids
    t = _tensors(folder)
    hidden = (_states(model, ids) @ t["score.0.weight"].T + t["score.0.bias"]).clamp(min=0)
    logits = hidden @ t["score.2.weight"].T + t["score.2.bias"]
    tag = tok.convert_tokens_to_ids("<extra_0>")
    return [float(logits[at].softmax(0)[1]) for at, token in enumerate(ids) if token == tag]


def skywork(folder, tok, model):
    ids = tok.encode(tok.bos_token + PROBLEM + "\n", add_special_tokens=False)
    newline = tok.encode("\n", add_special_tokens=False)[-1]
    reads = []
    for line in "\n".join(STEPS).split("\n"):
        ids += tok.encode(line, add_special_tokens=False)
        reads.append(len(ids))
        ids.append(newline)
    t = _tensors(folder)
    values = _states(model, ids) @ t["v_head.summary.weight"][0] + t["v_head.summary.bias"]
    return values[reads].sigmoid().tolist()


def er_prm(folder, tok, model):
    ids = [tok.bos_token_id, *tok(f"{PROBLEM} " + "".join(f"{step} ки" for step in STEPS)).input_ids]
    tag, plus, minus = (tok.encode(text, add_special_tokens=False)[-1] for text in (" ки", " +", " -"))
    logits = _logits(model, ids)
    return [_pair(logits[at], plus, minus) for at, token in enumerate(ids) if token == tag]


def math_psa(folder, tok, model):
    tag = " \n\n\n\n\n"
    ids = tok(f"{PROBLEM} " + "".join(step + tag for step in STEPS)).input_ids
    tag_id, plus, minus = (tok.encode(text, add_special_tokens=False)[-1] for text in (tag, " +", " -"))
    logits = _logits(model, ids)
    return [_pair(logits[at], plus, minus) for at, token in enumerate(ids) if token == tag_id]


def trl(folder, tok, model, separator="\n"):
    ids = [] if tok.bos_token_id is None else [tok.bos_token_id]
    ids += tok(PROBLEM, add_special_tokens=False).input_ids
    reads = []
    for step in STEPS:
        ids += tok(step, add_special_tokens=False).input_ids + tok(separator, add_special_tokens=False).input_ids
        reads.append(len(ids) - 1)
    return _logits(model, ids).softmax(-1)[reads, 1].tolist()


def pure(folder, tok, model):
    return [p - (1 - p) for p in trl(folder, tok, model, "\n\n")]


def universal(folder, tok, model):
    question = f"{PROBLEM}\n\n###\n\nThe reference answer is: There is no reference answer for this question."
    talk = [{"role": "system", "content": "You are a helpful assistant."}, {"role": "user", "content": question}]
    prompt = tok(tok.apply_chat_template(talk, tokenize=False, add_generation_prompt=True)).input_ids
    t = _tensors(folder)
    scores = []
    for k in range(1, len(STEPS) + 1):
        ids = [*prompt, *tok("\n\n".join(STEPS[:k]) + "\n\n").input_ids, tok.eos_token_id]
        scores.append(float((_states(model, ids)[-1] @ t["v_head.weight"][0] + t["v_head.bias"][0]).sigmoid()))
    return scores


def pqm(folder, tok, model):
    text = "<|begin_of_text|>" + PROBLEM + "".join(f"\n{step} [PRM]" for step in STEPS)
    ids = tok(text).input_ids
    t = _tensors(folder)
    values = _states(model, ids) @ t["v_head.weight"][0] + t["v_head.bias"]
    tag = tok.convert_tokens_to_ids("[PRM]")
    return [float(values[at].sigmoid()) for at, token in enumerate(ids) if token == tag]


def reason_eval(folder, tok, model):
    prompt = f"Question:\n{PROBLEM}\nAnswer:\nLet's think step by step.\n"
    t = _tensors(folder)
    ends = [len(tok(prompt + "".join(STEPS[:k])).input_ids) - 1 for k in range(1, len(STEPS) + 1)]
    states = _states(model, tok(prompt + "".join(STEPS)).input_ids)[ends]
    classes = (states @ t["score_head.weight"].T + t["score_head.bias"]).softmax(-1)
    return (classes[:, 1] + classes[:, 2]).tolist()


REFERENCE = {name: globals()[name] for name in FAMILIES}


@pytest.mark.parametrize("family", FAMILIES)
def test_the_scores_are_those_of_a_second_reading(family):
    folder, tok, model = tiny_prm(family)
    expected = REFERENCE[family](folder, tok, model)
    scores = MCPRM(folder, device="cpu").score(STEPS, problem=PROBLEM)
    assert len(expected) == len(STEPS), "the reference found another number of tags"
    assert scores.values == pytest.approx(expected, abs=1e-5, rel=0)
    assert scores.summary["convention"] == family
    assert max(expected) - min(expected) > 1e-3  # a test on a constant would prove nothing


@pytest.mark.parametrize("family", FAMILIES)
def test_alone_in_a_batch_and_packed_agree(family):
    folder, _, _ = tiny_prm(family)
    prm = MCPRM(folder, device="cpu")
    rollouts = [Rollout(PROBLEM, STEPS[:k]) for k in (4, 2, 3)] + [
        Rollout(PROBLEM, [*STEPS[:2], "No: 16 - 3 = 12."]),
        Rollout("What is 2 + 2?", ["4"]),
    ]
    together = prm.score_batch(rollouts)
    for max_tokens in (1, 60, 10_000):
        small = MCPRM(folder, device="cpu", max_tokens=max_tokens)
        for one, all_ in zip(small.score_batch(rollouts), together, strict=True):
            assert one.values == pytest.approx(all_.values, abs=1e-5, rel=0)
    assert prm.score_batch(rollouts[:1])[0].values == pytest.approx(together[0].values, abs=1e-5, rel=0)


@pytest.mark.parametrize("family", FAMILIES)
def test_each_score_has_its_tokens(family):
    """The span of each step decodes to the step, and its last token is the tag."""
    folder, tok, _ = tiny_prm(family)
    prm = MCPRM(folder, device="cpu")
    scores = prm.score(STEPS, problem=PROBLEM)
    loaded = prm._load()
    if CONVENTIONS[family].layout == "passes":
        return
    prompt = loaded.layout.prompt(PROBLEM)
    pieces = [loaded.layout.step(PROBLEM, s, k, first=k == 0) for k, s in enumerate(STEPS)]
    ids = [*prompt, *(token for piece in pieces for token in piece)]
    for step, detail in zip(STEPS, scores.details, strict=True):
        first, last = detail["token_span"]
        assert step in tok.decode(ids[first:last], clean_up_tokenization_spaces=False)


def test_published_ids_and_goldens_are_kept():
    """What the published tokenizers give; the checkpoint tests below use them where the weights are."""
    rows = CONVENTIONS
    assert (rows["math_shepherd"].tag_id, rows["math_shepherd"].label_ids) == (12902, (648, 387))
    assert (rows["qwen"].tag_id, rows["er_prm"].tag_id, rows["math_psa"].tag_id) == (151651, 116624, 76325)
    assert rows["rlhflow"].label_ids[0] == 10


QUESTION = (
    "Janet\u2019s ducks lay 16 eggs per day. She eats three for breakfast every morning and bakes muffins for her "
    "friends every day with four. She sells the remainder at the farmers' market daily for $2 per fresh duck egg. How "
    "much in dollars does she make every day at the farmers' market?"
)
JANET = [
    "Step 1: Janet's ducks lay 16 eggs per day.",
    "Step 2: She eats three for breakfast every morning, so she has 16 - 3 = 13 eggs left.",
    "Step 3: She bakes muffins for her friends every day with four eggs, so she has 13 - 4 = 9 eggs left.",
    "Step 4: She sells the remainder at the farmers' market daily for $2 per fresh duck egg, so she makes 9 * $2 = $18 "
    "every day at the farmers' market. The answer is: 18",
]


@pytest.mark.slow
def test_math_shepherd_gives_its_published_scores():
    name = "peiyi9979/math-shepherd-mistral-7b-prm"
    try:
        model_folder(name)
    except FileNotFoundError:
        pytest.skip(f"{name} is not in the local hub cache")
    prm = MCPRM(name)
    values = prm.score(JANET, problem=QUESTION).values
    assert values == pytest.approx([0.9955, 0.9958, 0.9983, 0.9957], abs=0.02)
    wrong = [*JANET[:3], JANET[3].replace("18", "17")]
    assert prm.score(wrong, problem=QUESTION).values[3] == pytest.approx(0.0240, abs=0.05)


def test_a_config_that_asks_for_remote_code_is_read_without():
    folder, _, _ = tiny_prm("qwen")
    with open(f"{folder}/config.json") as stream:
        assert "auto_map" in json.load(stream)
    assert MCPRM(folder, device="cpu").score(STEPS, problem=PROBLEM).status == "ok"
