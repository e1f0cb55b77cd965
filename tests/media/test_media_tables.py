"""Tables: what is a header, what is a number, and where the trouble is."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from coordnet.media import MediaError, read_media, read_table, write_media, write_table


def table(tmp_path, text):
    path = tmp_path / "t.csv"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_table(path)


@pytest.mark.parametrize(
    ("text", "columns", "rows"),
    [
        ("1,2\n3,4\n", (), [[1, 2], [3, 4]]),
        ("a,b\n1,2\n3,4", ("a", "b"), [[1, 2], [3, 4]]),
        ("a;b\r\n1.5;2\r\n-3e2;4\r\n", ("a", "b"), [[1.5, 2], [-300, 4]]),
        ("a\tb\n1\t2\n\n3\t4\n\n", ("a", "b"), [[1, 2], [3, 4]]),
        ("# a,b\n1,2", ("a", "b"), [[1, 2]]),
        ('"x, in m","y"\n1,2', ("x, in m", "y"), [[1, 2]]),
        ("\ufeffa\n1\n2\n", ("a",), [[1], [2]]),
        ("7\n", (), [[7]]),
        (" 1 , 2 \n", (), [[1, 2]]),
    ],
)
def test_tables(tmp_path, text, columns, rows):
    names, values = table(tmp_path, text)
    assert names == columns
    assert values.dtype == torch.float64
    assert values.tolist() == rows


def test_empty_cells_are_nan(tmp_path):
    _, values = table(tmp_path, "a,b\n1,\n,nan\n")
    assert values[0, 0] == 1
    assert values.isnan().tolist() == [[False, True], [True, True]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n3,cat\n", "line 3: expected a finite number, in b, found 'cat'"),
        ("1,b\n1,2\n", "line 1: .* found 'b'"),
        ("a,b\n1,2\nc,d\n", "line 3: .* found 'c'"),
        ("1,2\n3\n", "line 2: expected 2 cells .* found 1"),
        ("1,2\n\n3,4,5\n", "line 3: expected 2 cells .* found 3"),
        ("1,inf\n", "line 1: .*'inf'"),
        ("1_0,2\n", "line 1: .*'1_0'"),
        ("a,b\n", "rows of numbers, found none"),
        ("\n \n", "rows of numbers, found none"),
        (b"a,b\n\xff\xfe,1\n", "line 2: .* found 'ÿþ'"),
        ("", "empty file"),
    ],
)
def test_what_is_no_table(tmp_path, text, message):
    with pytest.raises(MediaError, match=message) as caught:
        table(tmp_path, text)
    assert "t.csv" in str(caught.value)
    assert "\n" not in str(caught.value)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), dtype=st.sampled_from(["float32", "float64"]), suffix=st.sampled_from([".csv", ".tsv"]))
def test_any_numbers_round_trip(tmp_path, data, dtype, suffix):
    numbers = st.floats(allow_infinity=False, width=32 if dtype == "float32" else 64)
    values = data.draw(arrays(dtype, array_shapes(min_dims=2, max_dims=2, max_side=5), elements=numbers))
    words = st.text(st.sampled_from("abxyzé ,;\"'."), min_size=1).map(lambda text: f"n{text.strip()}")
    size = values.shape[1]
    columns = data.draw(st.one_of(st.just([]), st.lists(words, min_size=size, max_size=size)))
    columns = [name.replace("na", "x") for name in columns]
    path = tmp_path / f"t{suffix}"
    path.unlink(missing_ok=True)
    write_table(path, columns, torch.from_numpy(values))
    names, found = read_table(path)
    assert names == tuple(columns)
    np.testing.assert_array_equal(found.numpy().astype(dtype), values)


def test_media_keeps_names_and_float32(tmp_path):
    (tmp_path / "a.csv").write_text("left,right\n0.1,2\n,4\n0.3,6\n")
    media = read_media(tmp_path / "a.csv")
    assert (media.kind, media.columns, media.grid) == ("table", ("left", "right"), (3,))
    assert media.signal.dtype == torch.float32
    assert math.isnan(media.signal[1, 0])
    write_media(media, tmp_path / "b.csv")
    assert (tmp_path / "b.csv").read_text() == "left,right\n0.1,2.0\nnan,4.0\n0.3,6.0\n"


@pytest.mark.parametrize("heading", ["day,level,remark\n", ""])
def test_columns_of_text_stay_as_they_are(tmp_path, heading):
    rows = '2020-01-01,1.5,"calm, dry"\n2020-01-02,,storm\n2020-01-03,4.5,fog\n'
    (tmp_path / "a.csv").write_text(heading + rows)
    media = read_media(tmp_path / "a.csv")
    assert media.signal[[0, 2], 0].tolist() == [1.5, 4.5] and bool(media.signal[1].isnan())
    write_media(dataclasses.replace(media, signal=media.signal.nan_to_num(3.0)), tmp_path / "b.csv")
    assert (tmp_path / "b.csv").read_text() == heading + rows.replace(",,", ",3.0,")
    with pytest.raises(MediaError, match="expected a column of numbers, found texts alone"):
        table(tmp_path, "day,remark\n2020-01-01,calm\n2020-01-02,storm\n2020-01-03,fog\n")


def test_every_column_has_a_name_or_none_has(tmp_path):
    with pytest.raises(MediaError, match="2 names of columns, found 1"):
        write_table(tmp_path / "a.csv", ["a"], torch.zeros(2, 2))
    assert not list(tmp_path.iterdir())


def test_empty_tables_are_not_written(tmp_path):
    with pytest.raises(MediaError, match="a table with numbers"):
        write_table(tmp_path / "a.csv", [], torch.zeros(0, 2))


def test_numbers_keep_their_digits_whatever_numpy_prints(tmp_path):
    values = torch.rand(5, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    with np.printoptions(legacy="1.13"):
        write_table(tmp_path / "a.csv", [], values)
    assert torch.equal(read_table(tmp_path / "a.csv")[1], values)
