"""Scorers for tests of filtering; in a module, so that worker processes can import them."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from stepgauge.scoring import Scorer, StepScores, score_each
from stepgauge.verifiers.math_answers import MathScorer


class Logged(MathScorer):
    """The math scorer; writes each batch's size to a file, and is as slow as one likes."""

    def __init__(self, log, seconds_a_row=0.0):
        self.log = str(log)
        self.seconds_a_row = seconds_a_row

    @property
    def fingerprint(self):
        return "logged"

    def score_batch(self, rollouts, *, deadline_s=None, progress=None):
        if rollouts:
            with open(self.log, "ab", buffering=0) as stream:
                stream.write(b"%d %d\n" % (len(rollouts), os.getpid()))
        time.sleep(self.seconds_a_row * len(rollouts))
        return super().score_batch(rollouts, progress=progress)


def logged_rows(log):
    """(batches, rows, processes) that the scorer saw."""
    lines = [line.split() for line in Path(log).read_text().splitlines()] if Path(log).exists() else []
    return len(lines), sum(int(size) for size, _ in lines), len({pid for _, pid in lines})


class Fatal(Scorer):
    """Takes the process down where a step says so; scores 1 otherwise."""

    name = "fatal"
    kind = "correctness"

    def __init__(self, needs=None):
        self.needs = needs

    def score_batch(self, rollouts, *, deadline_s=None, progress=None):
        return score_each(self._judge, rollouts, kind=self.kind, deadline_s=deadline_s, progress=progress)

    def _judge(self, rollout):
        text = rollout.response
        if "kill" in text:
            os.kill(os.getpid(), signal.SIGKILL)
        if "exit" in text:
            os._exit(3)
        if "hang" in text:
            signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            while True:
                sum(range(10**6))
        if "raise" in text:
            raise ZeroDivisionError("on purpose")
        if self.needs is not None and not Path(self.needs).exists():
            return StepScores.error(len(rollout.steps), self.kind, "transport", f"there is no {self.needs}")
        return StepScores((1.0,) * len(rollout.steps), self.kind)
