"""Records: whole lines, once each, whatever is killed or runs beside."""

import json
import multiprocessing
import os

import pytest

from coordnet.bench.protocols.records import NAME, Records, key_of, read


def record(number, text="x"):
    return {"key": key_of({"number": number}), "number": number, "text": text}


def add_many(folder, numbers):
    with Records(folder) as records:
        for number in numbers:
            records.add(record(number, "x" * 3000))


def claim_and_wait(folder, key, claimed, leave):
    with Records(folder) as records:
        assert records.claim(key)
        claimed.set()
        leave.wait(20)
        os._exit(9)  # nothing is given back


def test_a_key_does_not_depend_on_the_order_and_does_on_every_value():
    assert key_of({"a": 1, "b": [1, 2]}) == key_of({"b": [1, 2], "a": 1})
    assert len({key_of({"a": a, "b": b}) for a in (1, 1.5, "1") for b in ([1], [2])}) == 6


def test_a_record_is_kept_once(tmp_path):
    with Records(tmp_path) as records:
        assert records.add(record(1))
        assert not records.add(record(1, "another"))
        assert record(1)["key"] in records
    assert [r["text"] for r in read(tmp_path)] == ["x"]


def test_what_failed_may_be_superseded_and_what_is_done_may_not(tmp_path):
    with Records(tmp_path) as records, Records(tmp_path) as other:
        for status, text, added in (
            ("failed", "first", True),
            ("failed", "second", True),
            ("done", "third", True),
            ("failed", "fourth", False),
            ("done", "fifth", False),
        ):
            assert records.add({**record(1, text), "status": status}) is added
        other.refresh()
        assert other[record(1)["key"]]["text"] == "third"
    assert [r["text"] for r in read(tmp_path)] == ["third"]


def test_two_writers_see_each_other_s_records(tmp_path):
    with Records(tmp_path) as one, Records(tmp_path) as other:
        assert one.add(record(1))
        assert other.add(record(2))
        assert not one.add(record(2, "another"))
        assert one.add(record(3))
    assert [(r["number"], r["text"]) for r in read(tmp_path)] == [(1, "x"), (2, "x"), (3, "x")]


@pytest.mark.parametrize("kept", [1, 20, -1])
def test_a_torn_last_line_is_left_out_and_cut_off(tmp_path, kept):
    with Records(tmp_path) as records:
        records.add(record(1))
    line = json.dumps(record(2)).encode()
    with open(tmp_path / NAME, "ab") as file:
        file.write(line[:kept])
    assert [r["number"] for r in read(tmp_path)] == [1]
    with Records(tmp_path) as records:
        assert record(2)["key"] not in records
        assert records.add(record(3))
        assert records.add(record(2))
    assert [r["number"] for r in read(tmp_path)] == [1, 3, 2]
    assert len((tmp_path / NAME).read_bytes().splitlines()) == 3


def test_a_line_that_is_no_record_is_refused(tmp_path):
    with Records(tmp_path) as records:
        records.add(record(1))
    with open(tmp_path / NAME, "a") as file:
        file.write("nothing\n")
    with pytest.raises(ValueError, match="line 2"):
        read(tmp_path)


def test_what_cannot_be_json_is_not_written(tmp_path):
    with Records(tmp_path) as records, pytest.raises(ValueError, match="JSON"):
        records.add({"key": "0" * 16, "psnr": float("nan")})
    assert read(tmp_path) == []


def test_two_processes_at_once_neither_mix_nor_repeat_lines(tmp_path):
    context = multiprocessing.get_context("spawn")
    orders = [range(60), range(59, -1, -1), range(30, 90)]
    writers = [context.Process(target=add_many, args=(tmp_path, list(order))) for order in orders]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
        assert writer.exitcode == 0
    assert sorted(r["number"] for r in read(tmp_path)) == list(range(90))
    assert len((tmp_path / NAME).read_bytes().splitlines()) == 90


def test_a_claim_excludes_others_and_ends_with_its_process(tmp_path):
    context = multiprocessing.get_context("spawn")
    claimed, leave = context.Event(), context.Event()
    key, other = record(1)["key"], record(2)["key"]
    holder = context.Process(target=claim_and_wait, args=(tmp_path, key, claimed, leave))
    holder.start()
    try:
        assert claimed.wait(30)
        with Records(tmp_path) as records:
            assert not records.claim(key)
            assert records.claim(other)
            assert records.add(record(3))  # a claim does not lock the file
            leave.set()
            holder.join(20)
            assert records.claim(key)
    finally:
        leave.set()
        holder.join(20)
