"""Verifiers: math answers, step arithmetic. Model text is hostile here: nothing of it is ever evaluated as code."""

from stepgauge.verifiers.answers import Verdict, answer_classes, verify, verify_many, verify_response
from stepgauge.verifiers.extraction import ExtractedAnswer, extract_answer

__all__ = [
    "ExtractedAnswer",
    "Verdict",
    "answer_classes",
    "extract_answer",
    "verify",
    "verify_many",
    "verify_response",
]
