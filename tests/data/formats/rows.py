"""Hand-written rows of each documented layout: good ones, and one malformed in every way its reader names."""

from __future__ import annotations

TRL = {"prompt": "1+1?", "completions": ["1+1 = 2.", "So 3."], "labels": [True, False]}
SHEPHERD = {
    "input": "What is 1+1? Step 1: 1+1 = 2. ки\nStep 2: So 3. ки",
    "label": "What is 1+1? Step 1: 1+1 = 2. +\nStep 2: So 3. -",
    "task": "GSM8K",
}
OPENRLHF = {"input": SHEPHERD["input"], "value": ["+", "-"]}
ER_PRM = {"text": "What is 1+1? Step 1: 1+1 = 2. ки\nStep 2: So 3. ки", "value": [0.875, 0.125]}


def completion(text, rating, **more):
    return {"text": text, "rating": rating, "flagged": False, **more}


def session(steps, reason="solution", **question):
    """A PRM800K row of phase 1; ``steps`` are (completions, chosen, human)."""
    return {
        "labeler": "l",
        "timestamp": "2022-07-17T16:56:51",
        "generation": None,
        "is_quality_control_question": False,
        "is_initial_screening_question": False,
        "question": {"problem": "1+1?", "ground_truth_solution": "2", "ground_truth_answer": "2", **question},
        "label": {
            "steps": [
                {"completions": completions, "human_completion": human, "chosen_completion": chosen}
                for completions, chosen, human in steps
            ],
            "total_time": 100,
            "finish_reason": reason,
        },
    }


PHASE_1 = session(
    [
        ([completion("a0", -1), completion("a1", 1), completion("a2", 0)], 1, None),
        ([completion("b0", -1), completion("b1", None)], None, completion("b human", None, source="human")),
        ([completion("c0", 0), completion("c1", -1)], 0, None),
    ]
)
PHASE_2 = session(
    [([completion("a", 1)], 0, None), ([completion("b", -1)], None, None)],
    "found_error",
    pre_generated_steps=["a", "b", "c"],
    pre_generated_answer="3",
    pre_generated_verifier_score=0.25,
)
RLHFLOW = {
    "conversations": [
        {"role": "user", "content": "What is 1+1? Step 1: 1+1 = 2."},
        {"role": "assistant", "content": "+"},
        {"role": "user", "content": "Step 2: So 3."},
        {"role": "assistant", "content": "-"},
    ]
}
RLHFLOW_TEST = {"prompt": "1+1?", "answers": ["1+1 = 2.\n\nSo 2.", "So 3."], "label": [1, 0]}
PROCESSBENCH = {
    "id": "gsm8k-0",
    "generator": "Qwen2-7B-Instruct",
    "problem": "1+1?",
    "steps": ["1+1 = 2.", "So 3.", "Done."],
    "final_answer_correct": False,
    "label": 1,
}
PRMBENCH = {
    "original_question": "1+1?",
    "modified_question": "1+1?",
    "original_process": ["1. 1+1 = 2."],
    "modified_process": ["1. 1+1 = 3.", "2. So 3."],
    "modified_steps": [1],
    "error_steps": [1, 2],
    "reason": "the sum",
    "idx": "prm_test_p1_0",
    "question": "1+1?",
    "classification": "counterfactual",
}
MATH_APS = {
    "question_id": "q7",
    "question": "1+1?",
    "final_answer": "2",
    "reasoning_steps": [
        {"solution_prefix": "1+1 = 2.", "mc_value": 1.0},
        {"solution_prefix": "1+1 = 2. So 3.", "mc_value": 0.25},
    ],
}
MATH_APS_TREE = {
    "question_id": "q8",
    "question": "1+1?",
    "final_answer": "2",
    "reasoning_steps": [
        {
            "text": "1+1 = 2.",
            "mc_value": 0.75,
            "children": [
                {"text": " So 2.", "mc_value": 1.0, "children": []},
                {"text": " So 3.", "mc_value": 0.0, "children": []},
            ],
        }
    ],
}
ULTRAINTERACT = {
    "dataset": "gsm8k",
    "prompt": "1+1?",
    "completions": [["Step 1: 1+1 = 2.", "Step 2: So 2."], ["Step 1: So 3."]],
    "correctness": [True, False],
}
MR_GSM8K = {
    "uuid": "u1",
    "question": "1+1?",
    "ground_truth_solution": "#### 2",
    "ground_truth_answer": "2",
    "model_output_steps": ["Step 1: 1+1 = 3.", "Step 2: #### 3"],
    "model_output_answer_correctness": "wrong",
    "model_output_solution_correctness": "wrong",
    "model_output_solution_first_error_step": 1,
    "question_type": "original",
}
MR_BEN = {
    "Question_UUID": "u2",
    "Subject": "college_math",
    "Question": "1+1?",
    "Options": "A: 2 \nB: 3 ",
    "Ground_Truth_Answer": "A",
    "Sampled_Model": "m",
    "Model_Solution_Steps": ["Step 1: 1+1 = 2.", "Step 1.1: As said.", "Step 2: So 3.", "Solution: Choice_B"],
    "Model_Solution_Correctness": "incorrect",
    "Model_Solution_First_Error_Step": "2",
}
BIGBENCH = {"input": "1 + 1 =", "steps": ["It is 2.", "So 3."], "target": "2", "answer": "3", "mistake_index": 1}

GOOD = [
    ("trl", TRL),
    ("math_shepherd", SHEPHERD),
    ("openrlhf", OPENRLHF),
    ("openrlhf", {**OPENRLHF, "value": [0.875, 0.125]}),
    ("er_prm", ER_PRM),
    ("er_prm", {"text": "1+1? It is 2. ки\nSo 3. ки", "value": [1.0, 0.5]}),
    ("prm800k", PHASE_1),
    ("prm800k", PHASE_2),
    ("rlhflow", RLHFLOW),
    ("rlhflow_test", RLHFLOW_TEST),
    ("processbench", PROCESSBENCH),
    ("processbench", {**PROCESSBENCH, "label": -1, "final_answer_correct": True}),
    ("prmbench", PRMBENCH),
    ("prmbench", {**PRMBENCH, "error_steps": [1, 5]}),
    ("math_aps", MATH_APS),
    ("math_aps", MATH_APS_TREE),
    ("ultrainteract", ULTRAINTERACT),
    ("mr_gsm8k", MR_GSM8K),
    ("mr_gsm8k", {**MR_GSM8K, "model_output_solution_first_error_step": "N/A", "ground_truth_answer": 2}),
    ("mr_ben", MR_BEN),
    ("mr_ben", {**MR_BEN, "Model_Solution_First_Error_Step": "N/A"}),
    ("bigbench_mistake", BIGBENCH),
    ("bigbench_mistake", {**BIGBENCH, "mistake_index": None, "answer": None}),
]


def without(row, name):
    return {key: value for key, value in row.items() if key != name}


def step_with(**changes):
    """The phase-1 row with its last step changed."""
    last = {**PHASE_1["label"]["steps"][2], **changes}
    return {**PHASE_1, "label": {**PHASE_1["label"], "steps": [*PHASE_1["label"]["steps"][:2], last]}}


def prefixes(*pairs):
    return {**MATH_APS, "reasoning_steps": [{"solution_prefix": text, "mc_value": value} for text, value in pairs]}


def turns(*contents):
    roles = ["user", "assistant"] * len(contents)
    pairs = zip(roles, contents, strict=False)
    return {"conversations": [{"role": role, "content": content} for role, content in pairs]}


BAD = [  # format, row, what the error must say
    ("trl", ["no", "object"], "object with named fields"),
    ("trl", without(TRL, "prompt"), "no field 'prompt'"),
    ("trl", {**TRL, "completions": "1+1 = 2."}, "completions must be a list"),
    ("trl", {**TRL, "completions": ["a", 3]}, r"completions\[1\] must be a string"),
    ("trl", {**TRL, "labels": [True]}, "2 completions, 1 labels"),
    ("trl", {**TRL, "labels": [True, -100]}, r"labels\[1\] must lie in \[0, 1\]"),
    ("trl", {**TRL, "labels": [True, "no"]}, r"labels\[1\] must be a number"),
    ("trl", {**TRL, "labels": [True, float("nan")]}, "got nan"),
    ("trl", {**TRL, "completions": [], "labels": []}, "completions is empty"),
    ("trl", {**TRL, "prompt": "\ud800"}, "lone surrogate"),
    ("math_shepherd", without(SHEPHERD, "label"), "no field 'label'"),
    ("math_shepherd", {**SHEPHERD, "input": 3}, "input must be a string"),
    ("math_shepherd", {**SHEPHERD, "input": "no tag"}, "no step tag"),
    ("math_shepherd", {**SHEPHERD, "input": SHEPHERD["input"] + " tail"}, "text behind its last step tag"),
    ("math_shepherd", {**SHEPHERD, "label": SHEPHERD["label"].replace("So", "so")}, "differ before tag 2"),
    (
        "math_shepherd",
        {**SHEPHERD, "label": SHEPHERD["label"].replace("-", "?")},
        r"label at tag 2 must be '\+' or '-'",
    ),
    ("math_shepherd", {**SHEPHERD, "label": SHEPHERD["label"][:-1]}, "label at tag 2"),
    ("math_shepherd", {**SHEPHERD, "label": SHEPHERD["label"] + " tail"}, "label has text behind"),
    ("math_shepherd", {"input": "1+1? It is 2. ки", "label": "1+1? It is 2. +"}, "'Step 1:'"),
    ("openrlhf", {**OPENRLHF, "value": ["+"]}, "2 steps in input, 1 values"),
    ("openrlhf", {**OPENRLHF, "value": ["+", "0"]}, r"value\[1\] must be '\+' or '-'"),
    ("openrlhf", {**OPENRLHF, "value": ["+", 1.5]}, "must lie in"),
    ("openrlhf", {**OPENRLHF, "input": OPENRLHF["input"] + " tail"}, "text behind"),
    ("er_prm", {**ER_PRM, "text": ""}, "text is empty"),
    ("er_prm", {**ER_PRM, "value": 0.5}, "value must be a list"),
    ("er_prm", {**ER_PRM, "value": [0.5, -0.5]}, "must lie in"),
    ("prm800k", without(PHASE_1, "question"), "question must be an object"),
    ("prm800k", {**PHASE_1, "label": []}, "label must be an object"),
    ("prm800k", session([]), "label.steps is empty"),
    ("prm800k", session([([completion("a", 2)], 0, None)]), "rating must be -1, 0, 1 or null"),
    ("prm800k", session([([completion("a", True)], 0, None)]), "rating must be"),
    ("prm800k", session([([completion(None, 1)], 0, None)]), "text must be a string"),
    ("prm800k", session([([], None, None)]), "completions is empty"),
    ("prm800k", session([([completion("a", 1)], None, None), ([completion("b", 1)], 0, None)]), "steps follow it"),
    ("prm800k", step_with(chosen_completion=2), "one of 2 completions, got 2"),
    ("prm800k", step_with(chosen_completion="0"), "must be an integer"),
    ("rlhflow", {"conversations": []}, "got 0 turns"),
    ("rlhflow", turns("a", "+", "b"), "got 3 turns"),
    ("rlhflow", turns("a", "yes"), r"conversations\[1\] must be '\+' or '-'"),
    ("rlhflow", {"conversations": [{"role": "assistant", "content": "+"}] * 2}, "must be a turn of 'user'"),
    ("rlhflow", {"conversations": [{"role": "user"}, {}]}, "needs strings"),
    ("rlhflow_test", {**RLHFLOW_TEST, "label": [1]}, "2 answers, 1 given"),
    ("rlhflow_test", {**RLHFLOW_TEST, "label": [1, 2]}, "must be true or false"),
    ("processbench", without(PROCESSBENCH, "id"), "no field 'id'"),
    ("processbench", {**PROCESSBENCH, "label": 3}, r"label must be -1 \(no error\) or a step 0..2, got 3"),
    ("processbench", {**PROCESSBENCH, "label": True}, "label must be an integer"),
    ("processbench", without(PROCESSBENCH, "label"), "label must be an integer"),
    ("processbench", {**PROCESSBENCH, "final_answer_correct": "yes"}, "must be true or false"),
    ("prmbench", {**PRMBENCH, "error_steps": [0]}, "counts from 1"),
    ("prmbench", {**PRMBENCH, "error_steps": "1"}, "error_steps must be a list"),
    ("prmbench", {**PRMBENCH, "error_steps": [1.0]}, r"error_steps\[0\] must be an integer"),
    ("prmbench", {**PRMBENCH, "modified_process": []}, "modified_process is empty"),
    ("prmbench", without(PRMBENCH, "classification"), "no field 'classification'"),
    ("math_aps", {**MATH_APS, "reasoning_steps": []}, "reasoning_steps is empty"),
    ("math_aps", prefixes(("a", 1.0), ("a", 0.5)), "twice"),
    ("math_aps", prefixes(("a", 1.5)), "must lie in"),
    ("math_aps", prefixes((" ", 1.0)), "solution_prefix must be a text"),
    ("math_aps", {**MATH_APS, "reasoning_steps": [{"mc_value": 1.0}]}, "needs 'text'"),
    ("math_aps", {**MATH_APS, "final_answer": ["2"]}, "final_answer must be"),
    ("ultrainteract", {**ULTRAINTERACT, "correctness": [True]}, "2 completions, 1 given"),
    ("ultrainteract", {**ULTRAINTERACT, "completions": [["a"], [3]]}, r"completions\[1\]\[0\] must be a string"),
    ("ultrainteract", {**ULTRAINTERACT, "completions": [], "correctness": []}, "completions is empty"),
    ("ultrainteract", {**ULTRAINTERACT, "correctness": [True, None]}, "must be true or false"),
    ("mr_gsm8k", {**MR_GSM8K, "model_output_solution_first_error_step": 0}, r"must be 1..2 or 'N/A', got 0"),
    ("mr_gsm8k", {**MR_GSM8K, "model_output_solution_first_error_step": "1"}, "must be an integer"),
    ("mr_gsm8k", {**MR_GSM8K, "model_output_answer_correctness": "maybe"}, "must be 'correct' or 'wrong'"),
    ("mr_gsm8k", {**MR_GSM8K, "model_output_steps": []}, "model_output_steps is empty"),
    ("mr_gsm8k", without(MR_GSM8K, "ground_truth_answer"), "ground_truth_answer must be"),
    ("mr_ben", {**MR_BEN, "Model_Solution_First_Error_Step": "1.2"}, "'1.2' names 0"),
    ("mr_ben", {**MR_BEN, "Model_Solution_Steps": ["Step 2: a", "Step 2: b"]}, "'2' names 2"),
    ("mr_ben", {**MR_BEN, "Model_Solution_Steps": ["", " "]}, "Model_Solution_Steps is empty"),
    ("mr_ben", without(MR_BEN, "Options"), "no field 'Options'"),
    ("bigbench_mistake", {**BIGBENCH, "mistake_index": 2}, r"mistake_index must be 0..1 or null, got 2"),
    ("bigbench_mistake", {**BIGBENCH, "mistake_index": -1}, r"mistake_index must be 0..1 or null, got -1"),
    ("bigbench_mistake", {**BIGBENCH, "mistake_index": 1.0}, "must be an integer"),
    ("bigbench_mistake", {**BIGBENCH, "target": None}, "target must be a string"),
]
