"""Tables as people have them: each way to write the same three stations is read as the same numbers."""

import numpy as np
import pytest

from coordnet.media import MediaError
from coordnet.media.columns import Table

NUMBERS = [[4.7, 52.3, 11.25], [-0.5, 51.5, np.nan], [2.25, 48.75, 14.0]]
FORMS = {
    "commas": "name,lon,lat,t2m\nA,4.7,52.3,11.25\nB,-0.5,51.5,\nC,2.25,48.75,14\n",
    "semicolons and decimal commas": "name;lon;lat;t2m\nA;4,7;52,3;11,25\nB;-0,5;51,5;NA\nC;2,25;48,75;14\n",
    "quoted decimal commas": 'name,lon,lat,t2m\nA,"4,7","52,3","11,25"\nB,"-0,5","51,5",\nC,"2,25","48,75",14\n',
    "tabs": "name\tlon\tlat\tt2m\nA\t4.7\t52.3\t11.25\nB\t-0.5\t51.5\t\nC\t2.25\t48.75\t14\n",
    "bars and spaces": "name | lon | lat | t2m\nA | 4.7 | 52.3 | 11.25\nB | -0.5 | 51.5 | -\nC | 2.25 | 48.75 | 14\n",
    "columns of spaces": "name  lon    lat    t2m\nA     4.7    52.3   11.25\nB  -0.5  51.5  nan\nC 2.25 48.75 14\n",
    "decimal commas between spaces": "lon lat t2m\n4,7 52,3 11,25\n-0,5 51,5 NaN\n2,25 48,75 14\n",
    "names in a comment": "# made by hand\n# lon lat t2m\n4.7 52.3 11.25\n-0.5 51.5 nan\n# a remark\n2.25 48.75 14\n",
    "a year for a name": "name,lon,lat,2020,t2m\nA,4.7,52.3,1,11.25\nB,-0.5,51.5,1,n/a\nC,2.25,48.75,1,14\n",
    "capitals, a byte order mark": "\ufeffName,LON,LAT,T2M\nA,4.7,52.3,11.25\nB,-0.5,51.5,*\nC,2.25,48.75,14\n",
}


@pytest.mark.parametrize("text", FORMS.values(), ids=FORMS)
def test_every_form_has_the_same_numbers(text, tmp_path):
    (tmp_path / "a.csv").write_text(text, encoding="utf-8")
    found = Table(tmp_path / "a.csv").columns(["lon", "lat", "t2m"])
    np.testing.assert_array_equal(found.numbers, NUMBERS)
    assert [name.lower() for name in found.names] == ["lon", "lat", "t2m"] and found.units == ()


def test_units_may_stand_below_the_names(tmp_path):
    (tmp_path / "a.csv").write_text("station,lon,lat\n,degrees_east,degrees_north\nA,4.5,52\n")
    found = Table(tmp_path / "a.csv").columns(["lon", "lat"])
    assert found.units == ("degrees_east", "degrees_north") and found.numbers.tolist() == [[4.5, 52.0]]


def test_units_may_stand_in_brackets_behind_the_names(tmp_path):
    (tmp_path / "a.csv").write_text("Lon [°E],lat (deg),T (K),T (°C)\n4.5,52,280,6.85\n")
    table = Table(tmp_path / "a.csv")
    found = table.columns(["lon", "lat (deg)", "T (°C)"])
    assert (found.names, found.units) == (("Lon", "lat", "T"), ("°E", "deg", "°C"))
    assert found.numbers.tolist() == [[4.5, 52.0, 6.85]]
    assert table.columns(["lon", "T (K)", "T (°C)"]).names == ("Lon [°E]", "T (K)", "T (°C)")


def test_columns_without_names_have_numbers(tmp_path):
    (tmp_path / "a.csv").write_text("4.7,52.3,11\n-0.5,51.5,12\n")
    found = Table(tmp_path / "a.csv").columns(["3", "1"])
    assert found.names == ("column3", "column1") and found.numbers.tolist() == [[11.0, 4.7], [12.0, -0.5]]


def test_latin_letters_of_another_encoding_are_read(tmp_path):
    (tmp_path / "a.csv").write_bytes("Ort;lon\nKöln;6,9\n".encode("latin-1"))
    assert Table(tmp_path / "a.csv").columns(["lon"]).numbers.tolist() == [[6.9]]
    assert Table(tmp_path / "a.csv").names == ("Ort", "lon")


@pytest.mark.parametrize(
    ("text", "wanted", "message"),
    [
        ("lon,lat\n1,2\n", "t2m", "expected a column 't2m', found the columns lon, lat"),
        ("1,2\n3,4\n", "5", "expected a column '5', found 2 columns without names"),
        ("lon,lat\n1,2\n3\n", "lat", "line 3: expected 2 cells as in the first row, found 1"),
        ("lon,lat\n1,2\n3,north\n", "lat", "line 3: expected a finite number, in lat, found 'north'"),
        ("lon,lat\n1,2\n3,inf\n", "lat", "line 3: expected a finite number, in lat, found 'inf'"),
        ("lon;lat\n1;2,5\n3;1.234,5\n", "lat", "line 3: expected a finite number, in lat, found '1.234,5'"),
        (
            "lon;lat\n1;2,5\n3;1.5\n",
            "lat",
            "line 3: expected one decimal mark, a point or a comma, in lat, found '1.5'",
        ),
        ("# nothing\n", "lat", "expected rows of numbers, found none"),
        ("lon,lat\n", "lat", "expected rows of numbers, found none"),
        ("lon,lat,lon\n1,2,3\n", "lon", "expected a column 'lon'"),
        ("\0\0", "lat", "found a file that is no text"),
    ],
)
def test_what_is_no_table_is_refused_in_a_line(text, wanted, message, tmp_path):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(MediaError) as caught:
        Table(tmp_path / "a.csv").columns([wanted])
    assert message in str(caught.value) and "\n" not in str(caught.value)
