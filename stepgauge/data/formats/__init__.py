"""Labelled data sets in and out: one table of formats, each a reader and a writer of rows."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike
from typing import Any

from stepgauge.data.files import BadRow, OnBad, read_rows
from stepgauge.data.formats import fields, human, math_aps, outcomes, prm800k, rlhflow, stepwise, tagged
from stepgauge.data.formats.labelled import Labelled, first_error_labels, harden, truncate_at_first_error
from stepgauge.data.writing import write_rows

__all__ = [
    "FORMATS",
    "Format",
    "Labelled",
    "first_error_labels",
    "harden",
    "read_labelled",
    "truncate_at_first_error",
    "write_labelled",
]

MESSAGE = 400  # characters of an error: a number of a row may have thousands of digits
_log = logging.getLogger(__name__)

Write = Callable[[Iterable[Labelled]], Iterator[dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class Format:
    """A layout of rows: ``read`` gives the solutions of one row, ``write`` the rows of solutions."""

    about: str
    read: Callable[..., list[Labelled]]
    write: Write


def _each(write: Callable[[Labelled], dict[str, Any]], items: Iterable[Labelled]) -> Iterator[dict[str, Any]]:
    return map(write, items)


FORMATS: Mapping[str, Format] = {
    "trl": Format(
        "TRL stepwise supervision: prompt, completions, labels", stepwise.read_trl, partial(_each, stepwise.write_trl)
    ),
    "math_shepherd": Format(
        "Math-Shepherd: input with a tag behind each step, label with + and -",
        tagged.read_math_shepherd,
        partial(_each, tagged.write_math_shepherd),
    ),
    "openrlhf": Format(
        "OpenRLHF, zhuzilin/Math-Shepherd: input with tags, value",
        tagged.read_openrlhf,
        partial(_each, tagged.write_openrlhf),
    ),
    "er_prm": Format("ER-PRM: text with tags, soft values", tagged.read_er_prm, partial(_each, tagged.write_er_prm)),
    "prm800k": Format(
        "PRM800K, both phases: trees of rated completions", prm800k.read_prm800k, partial(_each, prm800k.write_prm800k)
    ),
    "rlhflow": Format(
        "RLHFlow: conversations of steps and + or -", rlhflow.read_rlhflow, partial(_each, rlhflow.write_rlhflow)
    ),
    "rlhflow_test": Format(
        "RLHFlow's test sets: prompt, answers, label", outcomes.read_rlhflow_test, outcomes.write_rlhflow_test
    ),
    "processbench": Format(
        "ProcessBench: steps and the first wrong one",
        stepwise.read_processbench,
        partial(_each, stepwise.write_processbench),
    ),
    "prmbench": Format(
        "PRMBench: modified process and its error steps",
        stepwise.read_prmbench,
        partial(_each, stepwise.write_prmbench),
    ),
    "mr_gsm8k": Format(
        "MR-GSM8K: steps and the first wrong one, by people",
        human.read_mr_gsm8k,
        partial(_each, human.write_mr_gsm8k),
    ),
    "mr_ben": Format(
        "MR-Ben: steps, blank lines among them, and the k of the first wrong 'Step k'",
        human.read_mr_ben,
        partial(_each, human.write_mr_ben),
    ),
    "bigbench_mistake": Format(
        "BIG-Bench Mistake: steps and the index of the first mistake",
        human.read_bigbench_mistake,
        partial(_each, human.write_bigbench_mistake),
    ),
    "math_aps": Format(
        "MATH-APS: Monte-Carlo values of solution prefixes, list or tree",
        math_aps.read_math_aps,
        partial(_each, math_aps.write_math_aps),
    ),
    "ultrainteract": Format(
        "UltraInteract rollouts: completions and their correctness",
        outcomes.read_ultrainteract,
        outcomes.write_ultrainteract,
    ),
}


def _log_bad(bad: BadRow) -> None:
    _log.warning("skipped %s", bad)


def _format(name: str) -> Format:
    if name not in FORMATS:
        raise ValueError(f"there is no format {name!r}; known: {', '.join(FORMATS)}")
    return FORMATS[name]


def read_labelled(
    source: str | PathLike[str] | Iterable[Mapping[str, Any]],
    format: str,
    *,
    on_bad: OnBad = _log_bad,
    **options: Any,
) -> Iterator[Labelled]:
    """Stream the labelled solutions of a file; a solution without an id of its own gets "line" or "line/number".

    To validate a file, read it to the end with an ``on_bad`` that collects.

    Args:
        source: a file or folder as ``read_rollouts`` takes, or rows.
        format: a name from ``FORMATS``.
        on_bad: called with a ``BadRow`` (file, line, what is wrong) for each row that is skipped; logs by default.
        options: of the format's reader: ``neutral`` (prm800k), ``how`` (ultrainteract, rlhflow_test).

    Raises:
        FileNotFoundError: no such file. ValueError: an unknown format, a source that cannot be read.
        TypeError: an option the format does not have.

    Example:
        >>> rows = [{"prompt": "1+1?", "completions": ["2"], "labels": [1]}, {"prompt": "1+1?"}]
        >>> bad = []
        >>> [item.labels for item in read_labelled(rows, "trl", on_bad=bad.append)], str(bad[0])
        ([(1.0,)], "rows:2: no field 'completions'; the row has prompt")
    """
    return _read(source, _checked(format, options), on_bad)


def _checked(name: str, options: Mapping[str, Any]) -> Callable[[Mapping[str, Any]], list[Labelled]]:
    """The reader with its options, which are wrong here rather than on every row."""
    import inspect

    read = _format(name).read
    known = [parameter for parameter in inspect.signature(read).parameters if parameter != "row"]
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise TypeError(f"format {name!r} has no option {unknown[0]!r}; it has {', '.join(known) or 'none'}")
    prm800k.check_neutral(options.get("neutral", "good"))
    return partial(read, **options)


def _read(
    source: str | PathLike[str] | Iterable[Mapping[str, Any]],
    read: Callable[[Mapping[str, Any]], list[Labelled]],
    on_bad: OnBad,
) -> Iterator[Labelled]:
    is_file = isinstance(source, str | PathLike)
    name = str(source) if is_file else "rows"
    rows = read_rows(source, on_bad=on_bad) if is_file else enumerate(source, start=1)  # type: ignore[arg-type]
    for line, row in rows:
        try:
            found = read(fields.row_of(row))
        except (ValueError, TypeError, OverflowError, RecursionError) as error:
            message = str(error)
            on_bad(BadRow(name, line, message if len(message) <= MESSAGE else f"{message[: MESSAGE - 1]}…"))
            continue
        for number, item in enumerate(found):
            if item.rollout.id:
                yield item
            else:
                label = str(line) if len(found) == 1 else f"{line}/{number}"
                yield replace(item, rollout=replace(item.rollout, id=label))


def write_labelled(path: str | PathLike[str], items: Iterable[Labelled], format: str) -> int:
    """Write solutions in a format and return the number of rows; files and safety as ``write_rows``.

    Raises:
        ValueError: an unknown format, or a solution the format cannot hold; the message says which and why, and
            nothing is written.
    """
    return write_rows(path, _rows(_format(format), items))


def _rows(format: Format, items: Iterable[Labelled]) -> Iterator[dict[str, Any]]:
    last: list[Labelled] = []

    def noted() -> Iterator[Labelled]:
        for item in items:
            last[:] = [item]
            yield item

    try:
        yield from format.write(noted())
    except ValueError as error:
        where = f"solution {last[0].rollout.id!r}: " if last else ""
        raise ValueError(f"{where}{error}") from error
