"""Records: whole lines, whatever is killed or runs beside."""

import json
import multiprocessing
import os
import resource
import signal

import pytest

from coordnet.bench.records import NAME, appending, key_of, read


def record(number, text="x", **more):
    return {"key": key_of({"number": number}), "number": number, "text": text, **more}


def texts(folder):
    return [(r["number"], r["text"]) for r in read(folder).values()]


def hold(folder, open_, leave):
    with appending(folder) as add:
        add(record(1))
        open_.set()
        leave.wait(60)
        os._exit(9)  # nothing is closed


def test_a_key_does_not_depend_on_the_order_and_does_on_every_value():
    assert key_of({"a": 1, "b": [1, 2]}) == key_of({"b": [1, 2], "a": 1})
    assert len({key_of({"a": a, "b": b}) for a in (1, 1.5, "1") for b in ([1], [2])}) == 6


def test_the_latest_result_counts_and_a_failure_never_replaces_it(tmp_path):
    with appending(tmp_path) as add:
        for status, text in (("failed", "1"), ("failed", "2"), ("done", "3"), ("failed", "4")):
            add(record(1, text, status=status))
        add(record(2, "between"))
    assert texts(tmp_path) == [(1, "3"), (2, "between")]
    with appending(tmp_path) as add:
        add(record(1, "5", status="done"))
    assert texts(tmp_path) == [(2, "between"), (1, "5")]


@pytest.mark.parametrize("kept", [1, 20, -1])
def test_a_torn_last_line_is_left_out_and_cut_off(tmp_path, kept):
    with appending(tmp_path) as add:
        add(record(1))
    with open(tmp_path / NAME, "ab") as file:
        file.write(json.dumps(record(2)).encode()[:kept])
    assert texts(tmp_path) == [(1, "x")]
    with appending(tmp_path) as add:
        add(record(3))
        add(record(2))
    assert texts(tmp_path) == [(1, "x"), (3, "x"), (2, "x")]
    assert len((tmp_path / NAME).read_bytes().splitlines()) == 3


def test_a_line_that_is_no_record_is_refused(tmp_path):
    (tmp_path / NAME).write_text(json.dumps(record(1)) + "\nnothing\n")
    with pytest.raises(ValueError, match="line 2"):
        read(tmp_path)


def test_what_cannot_be_json_is_not_written(tmp_path):
    with appending(tmp_path) as add, pytest.raises(ValueError, match="JSON"):
        add({"key": "0" * 16, "score": float("nan")})
    assert read(tmp_path) == {}


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # a process with threads forks
def test_a_second_run_of_a_folder_is_refused_until_the_first_ends_even_by_a_kill(tmp_path):
    context = multiprocessing.get_context("fork")
    open_, leave = context.Event(), context.Event()
    holder = context.Process(target=hold, args=(tmp_path, open_, leave))
    holder.start()
    try:
        assert open_.wait(60)
        with pytest.raises(ValueError, match="no other run"), appending(tmp_path):
            pass
    finally:
        leave.set()
        holder.join(60)
    with appending(tmp_path) as add:
        add(record(2))
    assert texts(tmp_path) == [(1, "x"), (2, "x")]


def test_a_full_disk_is_named_and_keeps_the_records_before_it(tmp_path):
    """A limit on the size of files stands for the disk; what it takes of the last line is no record."""
    size = len(json.dumps(record(1))) + 1
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2 * size + size // 2, hard))
        with pytest.raises(ValueError, match=f"{NAME}: expected a file that can be written, found File too large"):
            with appending(tmp_path) as add:
                for number in (1, 2, 3):
                    add(record(number))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    assert texts(tmp_path) == [(1, "x"), (2, "x")]
