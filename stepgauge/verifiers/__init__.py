"""Verifiers: math answers, step arithmetic. Model text is hostile here: nothing of it is ever evaluated as code."""

from stepgauge.verifiers.answers import Verdict, answer_classes, verify, verify_many, verify_response
from stepgauge.verifiers.extraction import ExtractedAnswer, extract_answer
from stepgauge.verifiers.symbolic.policy import Policy

__all__ = [
    "ExtractedAnswer",
    "Policy",
    "Verdict",
    "answer_classes",
    "extract_answer",
    "verify",
    "verify_many",
    "verify_response",
]
