"""Published figures of ProcessBench and PRMBench, to stand beside one's own, each with where it was read."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["PRMBENCH", "PRMBENCH_SOURCE", "PROCESSBENCH", "Published", "PublishedPRMScore"]

LESSONS = "Zhang et al. 2025, arXiv 2501.07301v2, Table 7 (read second-hand)"
LESSONS_AND_RPRM = "Zhang et al. 2025, arXiv 2501.07301v2, Table 7; also in the README of NJUNLP/R-PRM"
R_PRM = "README of NJUNLP/R-PRM"
FREE_PRM = "README of FreePRM (read second-hand)"
TRL_FIX = "QwenLM/ProcessBench pull request 12 (mean computed here)"
HF4 = "huggingface/search-and-learn, recipes/training (mean computed here; theirs weighs splits by size: 40.4, 54.7)"


@dataclass(frozen=True, slots=True)
class Published:
    """F1 in percent on gsm8k, math, olympiadbench and omnimath, their mean, and the source."""

    model: str
    f1: tuple[float, float, float, float]
    mean: float
    source: str


PROCESSBENCH: tuple[Published, ...] = (
    Published("Math-Shepherd-PRM-7B", (47.9, 29.5, 24.8, 23.8), 31.5, LESSONS_AND_RPRM),
    Published("RLHFlow-PRM-Mistral-8B", (50.4, 33.4, 13.8, 15.8), 28.4, LESSONS),
    Published("RLHFlow-PRM-Deepseek-8B", (38.8, 33.8, 16.9, 16.9), 26.6, LESSONS),
    Published("Skywork-PRM-1.5B", (59.0, 48.0, 19.3, 19.2), 36.4, LESSONS),
    Published("Skywork-PRM-7B", (70.8, 53.6, 22.9, 21.0), 42.1, LESSONS_AND_RPRM),
    Published("EurusPRM-Stage1", (44.3, 35.6, 21.7, 23.1), 31.2, LESSONS),
    Published("EurusPRM-Stage2", (47.3, 35.7, 21.2, 20.9), 31.3, LESSONS),
    Published("Qwen2.5-Math-7B-Math-Shepherd", (62.5, 31.6, 13.7, 7.7), 28.9, LESSONS),
    Published("Qwen2.5-Math-7B-PRM800K", (68.2, 62.6, 50.7, 44.3), 56.5, LESSONS_AND_RPRM),
    Published("Qwen2.5-Math-PRM-7B", (82.4, 77.6, 67.5, 66.3), 73.5, LESSONS_AND_RPRM),
    Published("Qwen2.5-Math-PRM-72B", (87.3, 80.6, 74.3, 71.1), 78.3, LESSONS),
    Published("R-PRM-7B-SFT", (77.2, 71.6, 59.6, 52.3), 65.2, R_PRM),
    Published("R-PRM-7B-DPO", (80.7, 76.9, 63.8, 60.1), 70.4, R_PRM),
    Published("FreePRM-7B", (74.2, 58.8, 39.0, 40.1), 53.0, FREE_PRM),
    Published("TRL, trained on PRM800K", (67.8, 68.3, 53.0, 52.0), 60.3, TRL_FIX),
    Published("HuggingFaceH4 PRM-0.2 1.5B", (36.6, 49.6, 36.1, 37.0), 39.8, HF4),
    Published("HuggingFaceH4 PRM-0.2 7B", (70.8, 62.6, 47.1, 48.0), 57.1, HF4),
    Published("GPT-4o-0806 as critic", (79.2, 63.6, 51.4, 53.5), 61.9, LESSONS_AND_RPRM),
    Published("o1-mini as critic", (93.2, 88.9, 87.2, 82.4), 87.9, LESSONS_AND_RPRM),
    Published("QwQ-32B-Preview as critic", (88.0, 78.7, 57.8, 61.3), 71.5, LESSONS),
)


PRMBENCH_SOURCE = "README of ssmisya/PRMBench at commit 14b1b89b (o1-mini: on 394 of the samples)"


@dataclass(frozen=True, slots=True)
class PublishedPRMScore:
    """PRMScore in percent: overall, and the means of the three groups."""

    model: str
    overall: float
    simplicity: float
    soundness: float
    sensitivity: float


PRMBENCH: tuple[PublishedPRMScore, ...] = (
    PublishedPRMScore("Skywork-PRM-1.5B", 31.7, 33.6, 28.6, 48.8),
    PublishedPRMScore("Skywork-PRM-7B", 36.2, 38.4, 32.7, 54.3),
    PublishedPRMScore("Math-Shepherd-Mistral-7B", 47.0, 47.1, 45.7, 60.7),
    PublishedPRMScore("Llemma-oprm-7B", 50.3, 49.0, 49.8, 64.1),
    PublishedPRMScore("Llemma-MetaMath-7B", 50.5, 50.3, 49.0, 66.0),
    PublishedPRMScore("Llemma-PRM800k-7B", 52.0, 51.4, 50.9, 66.0),
    PublishedPRMScore("MATHMinos-Mistral-7B", 54.2, 51.4, 54.4, 66.5),
    PublishedPRMScore("RLHFlow-PRM-Deepseek-8B", 54.2, 47.6, 57.5, 68.1),
    PublishedPRMScore("RLHFlow-PRM-Mistral-8B", 54.4, 46.7, 57.5, 68.5),
    PublishedPRMScore("ReasonEval-7B", 60.0, 55.5, 63.9, 71.0),
    PublishedPRMScore("ReasonEval-34B", 60.5, 51.5, 63.0, 73.1),
    PublishedPRMScore("Gemini-2.0-flash-exp as critic", 66.0, 62.7, 67.3, 75.4),
    PublishedPRMScore("GPT-4o as critic", 66.8, 59.7, 70.9, 75.8),
    PublishedPRMScore("o1-mini as critic", 68.8, 64.6, 72.1, 75.5),
    PublishedPRMScore("Gemini-2.0-thinking-exp-1219 as critic", 68.8, 66.2, 71.8, 75.3),
)
