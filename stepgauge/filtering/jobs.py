"""``filter_dataset``: a job in a folder that may be killed at any moment and goes on where it was."""

from __future__ import annotations

import itertools
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from stepgauge.data.journal import Journal
from stepgauge.data.steps import SPLITTERS
from stepgauge.data.writing import write_text
from stepgauge.filtering.chunks import Chunk, Source, cut
from stepgauge.filtering.parts import unify_parts
from stepgauge.filtering.rules import Rule
from stepgauge.filtering.runners import ProcessPool, Runner
from stepgauge.filtering.shards import FATES, ShardWork, marker_path
from stepgauge.filtering.tallies import Tally
from stepgauge.loading import load
from stepgauge.scoring import Scorer

__all__ = ["FilterFailed", "FilterProgress", "FilterSummary", "Scorers", "filter_dataset", "named_scorers"]

Scorers = str | Scorer | Mapping[str, Scorer]

GIVE_UP_ROWS = 1_000  # rows that all failed: the scorer is broken, not the rows
_VERSION = 1
_ALIAS = re.compile(r"([A-Za-z_]\w*)=(.+)", re.DOTALL)


class FilterFailed(RuntimeError):
    """No row could be scored; the message is the scorer's."""


@dataclass(frozen=True, slots=True)
class FilterProgress:
    """How far a job is: rows done (those of earlier runs included) of ``total`` (None: not known), in ``seconds``.

    ``fresh`` rows were worked in this run, ``bad`` ones quarantined.
    """

    done: int
    fresh: int
    bad: int
    total: int | None
    seconds: float


@dataclass(frozen=True, slots=True)
class FilterSummary:
    """What became of the rows so far; ``complete`` when no shard is missing. ``summary.json`` has it all.

    ``scored`` counts scores made in the shards' last tries, ``reused`` those found in the journal or equal to another
    row's; ``failed`` quarantined rows are tried again by another run.
    """

    rows: int
    kept: int
    dropped: int
    quarantined: int
    scored: int
    reused: int
    failed: int
    shards: int
    complete: bool
    seconds: float
    tally: Tally

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        names = ("rows", *FATES, "scored", "reused", "failed", "shards", "complete", "seconds")
        told = self.tally.to_json()
        del told["counts"]
        return {name: getattr(self, name) for name in names} | told


def named_scorers(scorers: Scorers) -> dict[str, Scorer]:
    """Scorers by the names that rules and columns use: ``"math,small=prm:/models/a"`` gives ``math`` and ``small``.

    Without a name of its own, a scorer has that of its kind in ``load``, numbered where two have the same.

    Raises:
        ValueError: nothing named, or a name that no rule can write.

    Example:
        >>> list(named_scorers("math, first=arithmetic")), list(named_scorers(load("math")))
        (['math', 'first'], ['math'])
    """
    if isinstance(scorers, Scorer):
        return {_name(scorers.name): scorers}
    if isinstance(scorers, str):
        found: dict[str, Scorer] = {}
        for spec in filter(None, map(str.strip, scorers.split(","))):
            alias = _ALIAS.fullmatch(spec)
            name, spec = (alias[1], alias[2]) if alias else (_name(spec.partition(":")[0]), spec)
            number = next(n for n in itertools.count(1) if (name if n == 1 else f"{name}{n}") not in found)
            found[name if number == 1 else f"{name}{number}"] = load(spec)
        scorers = found
    if not scorers:
        raise ValueError("a filter needs a scorer, such as 'math'; `stepgauge scorers` lists them")
    for name in scorers:
        if not name.isidentifier() or name in ("row", "summary", "n_steps"):
            raise ValueError(f"a scorer cannot be called {name!r} in a rule; name it otherwise, as in a=prm:/models/b")
    return dict(scorers)


def _name(text: str) -> str:
    return re.sub(r"\W", "_", text)


def filter_dataset(
    source: Source,
    scorer: Scorers,
    keep: str,
    out: str | PathLike[str],
    *,
    runner: Runner | None = None,
    shard: tuple[int, int] = (0, 1),
    shard_rows: int = 4_096,
    batch_rows: int = 256,
    journal: str | PathLike[str] | None = None,
    gold_field: str | None = None,
    how: str = "auto",
    stall_s: float = 600.0,
    progress: Callable[[FilterProgress], None] | None = None,
) -> FilterSummary:
    """Score the rows of a source and sort them by a rule, in a folder; a killed job goes on when started again.

    ``out`` gets ``kept/``, ``dropped/`` and ``quarantined/`` (parquet parts: the rows with score columns, why not, and
    rows that could not be judged), ``summary.json``, and its own state (``shards/``, ``journal.sqlite``, ``job.json``).
    Started again, it leaves finished shards alone, except those with rows on which a scorer failed.

    Args:
        source: see ``stepgauge.filtering.cut``.
        scorer: names for ``load``, with commas; or a scorer, or several by name.
        keep: the rule, see ``Rule``.
        out: the folder.
        runner: default ``ProcessPool()``; ``InProcess()``, or ``RayActors()`` from ``stepgauge.filtering.ray_runner``.
        shard: (i, n), i from 0: work every n-th shard only, as one of n jobs in the same folder; a journal each.
        shard_rows: rows of a shard, at most. batch_rows: rows scored at once; what a kill can lose, a worker.
        journal: file of scores; jobs that share it, on one machine, share their scores. Default in ``out``.
        gold_field, how: see ``read_rollouts``.
        stall_s: seconds of one batch after which a worker is replaced.
        progress: called after each shard.

    Raises:
        ValueError: a rule, a source or a folder that does not fit. BlockingIOError: another run works in ``out``.
        FilterFailed: the first ``GIVE_UP_ROWS`` rows all failed, with the scorer's message.

    Example:
        >>> import tempfile
        >>> from stepgauge.filtering import InProcess
        >>> rows = [{"problem": "1+1?", "steps": [f"1 + 1 = {n}"]} for n in (2, 3)]
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     done = filter_dataset(rows, "arithmetic", "aggregate == 1", folder, runner=InProcess())
        >>> done.kept, done.dropped, dict(done.tally.reasons)
        (1, 1, {'false: aggregate == 1': 1})
    """
    index, jobs = shard
    if not 0 <= index < jobs:
        raise ValueError(f"filter_dataset(shard) is (i, n) with i from 0 to n - 1, got {shard}")
    if how not in SPLITTERS:
        raise ValueError(f"filter_dataset(how) must be one of {', '.join(SPLITTERS)}; got {how!r}")
    if batch_rows < 1:
        raise ValueError(f"filter_dataset(batch_rows) must be at least 1, got {batch_rows}")
    runner = runner or ProcessPool()
    if journal is not None and not runner.one_machine:
        raise ValueError("filter_dataset(journal): a journal is for one machine; this runner has several")
    scorers = named_scorers(scorer)
    rule = Rule(keep, tuple(scorers))
    folder = Path(out).resolve()
    started = time.monotonic()
    suffix = "" if jobs == 1 else f"-{index}-of-{jobs}"
    found = cut(source, shard_rows)
    described = {
        "version": _VERSION,
        "source": list(found.identity),
        "scorers": {name: one.fingerprint for name, one in scorers.items()},
        "keep": rule.text,
        "shard_rows": shard_rows,
        "jobs": jobs,
        "gold_field": gold_field,
        "how": how,
    }
    with _alone(folder / f"lock{suffix}"):
        _agree(folder / "job.json", described)
        kept_in = Path(journal).resolve() if journal is not None else folder / f"journal{suffix}.sqlite"
        if runner.one_machine:
            Journal(kept_in).close()  # made here, before workers open it all at once
        work = ShardWork(
            folder, scorers, rule, kept_in if runner.one_machine else None, gold_field, how, batch_rows, stall_s
        )
        watch = _Watch(found.rows, progress, started)
        todo = watch.missing(folder, found.chunks, index, jobs)
        with closing(runner.run(work, todo)) as markers:
            for marker in markers:
                watch.note(marker, fresh=True)
        return _summarize(folder, watch.shards, started)


class _Watch:
    """Which shards are left, how far the job is, and whether anything can be scored at all."""

    def __init__(self, total: int | None, progress: Callable[[FilterProgress], None] | None, started: float) -> None:
        self.total = total
        self.progress = progress
        self.started = started
        self.shards = self.done = self.fresh = self.bad = self.failed = 0

    def missing(self, folder: Path, chunks: Iterable[Chunk], index: int, jobs: int) -> Iterator[Chunk]:
        """The chunks of job ``index`` that have no marker, or one with failures; counts all chunks as they go by."""
        for chunk in chunks:
            self.shards += 1
            if chunk.index % jobs != index:
                self.total = self.total and self.total - chunk.count
                continue
            marker = _read_marker(folder, chunk.index)
            if marker is None or marker["digest"] != chunk.digest or marker["counts"].get("failed"):
                yield chunk
            else:
                self.note(marker, fresh=False)

    def note(self, marker: Mapping[str, Any], *, fresh: bool) -> None:
        """Count a finished shard."""
        counts = marker["counts"]
        rows = sum(counts.get(fate, 0) for fate in FATES)
        self.done += rows
        self.bad += counts.get("quarantined", 0)
        if fresh:
            self.fresh += rows
            self.failed += counts.get("failed", 0)
            if self.failed == self.fresh >= GIVE_UP_ROWS:
                message = next(iter(marker["messages"].values()), "no message")
                raise FilterFailed(f"the first {self.fresh} rows could not be scored: {message}")
        if self.progress is not None:
            seconds = time.monotonic() - self.started
            self.progress(FilterProgress(self.done, self.fresh, self.bad, self.total, seconds))


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """Hold a lock file that the system lets go of when this process ends, however it ends."""
    import fcntl

    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BlockingIOError(
                f"another run is at work in {lock.parent}; wait for it, or name another folder"
            ) from None
        yield


def _agree(path: Path, described: Mapping[str, Any]) -> None:
    """Write what the job is, or check that the folder holds this very job."""
    if not path.exists():
        write_text(path, json.dumps(described, indent=1) + "\n")
        return
    try:
        before = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is not the description of a job ({error}); name another folder") from error
    other = [name for name, value in described.items() if before.get(name) != json.loads(json.dumps(value))]
    if other:
        shown = ", ".join(f"{name} (was {before.get(name)!r:.80})" for name in other)
        raise ValueError(
            f"the folder {path.parent} holds another job, which differs in {shown}; name another folder, and pass "
            f"{path.parent / 'journal.sqlite'} as the journal to use its scores again"
        )


def _read_marker(folder: Path, index: int) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads(marker_path(folder, index).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None
    return found


def _summarize(folder: Path, shards: int, started: float) -> FilterSummary:
    """Add up the markers; where all are there, give the parts one schema and remove what is in the way."""
    tally, missing = Tally(), 0
    for index in range(shards):
        marker = _read_marker(folder, index)
        if marker is None:
            missing += 1
        else:
            tally.merge(Tally.from_json(marker))
    if not missing:
        for fate in FATES:
            for part in (folder / fate).glob("part-*.parquet"):
                if int(part.stem.removeprefix("part-")) >= shards:
                    part.unlink()  # of an earlier, longer stream
            unify_parts(folder / fate)
    counts = tally.counts
    summary = FilterSummary(
        rows=sum(counts[fate] for fate in FATES),
        kept=counts["kept"],
        dropped=counts["dropped"],
        quarantined=counts["quarantined"],
        scored=counts["scored"],
        reused=counts["reused"],
        failed=counts["failed"],
        shards=shards,
        complete=not missing,
        seconds=time.monotonic() - started,
        tally=tally,
    )
    write_text(folder / "summary.json", json.dumps(summary.to_json(), indent=1) + "\n")
    return summary
