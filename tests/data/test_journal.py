"""The journal: all or nothing, first value stays, several processes, what is refused."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepgauge.data.journal import Journal

ENTRIES = st.dictionaries(st.binary(max_size=20), st.binary(max_size=20), max_size=30)


@given(st.lists(ENTRIES, max_size=6))
def test_is_a_dictionary_whose_first_value_stays(batches):
    model = {}
    with Journal(":memory:") as journal:
        for batch in batches:
            journal.put(batch)
            model = batch | model
            assert journal.get(model) == model
        assert len(journal) == len(model)
        assert journal.get([b"never" * 5]) == {}


def test_many_keys_at_once():
    entries = {str(i).encode(): b"x" for i in range(5_000)}
    with Journal(":memory:") as journal:
        journal.put(entries)
        assert journal.get([*entries, *entries]) == entries


def test_a_failed_put_adds_nothing(tmp_path):
    with Journal(tmp_path / "j") as journal:
        with pytest.raises(sqlite3.Error):
            journal.put({b"a": b"1", b"b": object()})
        assert len(journal) == 0
        journal.put({b"a": b"1"})
        assert journal.get([b"a"]) == {b"a": b"1"}


def _fill(path, worker):
    with Journal(path) as journal:
        for batch in range(20):
            journal.put({f"{worker} {batch} {i}".encode(): b"x" for i in range(10)} | {b"shared": str(worker).encode()})


def test_processes_and_threads_share_the_file(tmp_path):
    path = tmp_path / "j"
    with Journal(path) as journal:
        with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
            list(pool.map(_fill, [path] * 2, range(2)))
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(journal.put, [{f"t{i}".encode(): b"x"} for i in range(40)]))
        assert len(journal) == 2 * 200 + 1 + 40


KILLED = """
import sys
from stepgauge.data.journal import Journal
journal = Journal(sys.argv[1])
number = 0
while True:
    journal.put({f"{number} {i}".encode(): b"x" for i in range(50)})
    print(number, flush=True)
    number += 1
"""


def test_what_was_put_survives_a_kill_and_nothing_is_half_there(tmp_path):
    path = str(tmp_path / "j")
    process = subprocess.Popen([sys.executable, "-c", KILLED, path], stdout=subprocess.PIPE, text=True)
    said = [int(process.stdout.readline()) for _ in range(12)]
    os.kill(process.pid, signal.SIGKILL)
    said += [int(line) for line in process.communicate()[0].split()]
    with Journal(path) as journal:
        assert len(journal) >= 50 * len(said)
        assert len(journal) % 50 == 0


@pytest.mark.parametrize("content", [b"not a database" * 100, None])
def test_other_files_are_refused_and_left_alone(tmp_path, content):
    path = tmp_path / "other"
    if content is None:
        with sqlite3.connect(path) as database:
            database.execute("CREATE TABLE mine (x)")
        database.close()
    else:
        path.write_bytes(content)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="name another file"):
        Journal(path)
    assert path.read_bytes() == before
