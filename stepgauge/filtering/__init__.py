"""Filtering at scale: score millions of rows, keep those that meet a rule, survive being killed."""

from stepgauge.filtering.chunks import Chunk, Chunks, cut, read_chunk
from stepgauge.filtering.jobs import FilterFailed, FilterProgress, FilterSummary, filter_dataset, named_scorers
from stepgauge.filtering.judging import Decision
from stepgauge.filtering.parts import read_parts
from stepgauge.filtering.rules import COLUMNS, Rule, RuleError
from stepgauge.filtering.runners import InProcess, ProcessPool, Runner
from stepgauge.filtering.shards import ShardWork
from stepgauge.filtering.streaming import filter_rows

__all__ = [
    "COLUMNS",
    "Chunk",
    "Chunks",
    "Decision",
    "FilterFailed",
    "FilterProgress",
    "FilterSummary",
    "InProcess",
    "ProcessPool",
    "Rule",
    "RuleError",
    "Runner",
    "ShardWork",
    "cut",
    "filter_dataset",
    "filter_rows",
    "named_scorers",
    "read_chunk",
    "read_parts",
]
