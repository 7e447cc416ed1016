"""Bad files and command lines of users, for `test_bad_inputs.py`.

`FILES` holds the name of a file, its content, options of the command and words of the message in
addition to the name; `COMMANDS` holds arguments and words; `READ` holds unusual files, and what is
read from them.
"""

import gzip
import io
import zipfile
from pathlib import Path

import numpy as np

ROWS = np.random.default_rng(0).normal(size=(30, 2)).cumsum(axis=0)
CSV = "a,b\n" + "\n".join(f"{a:.4f},{b:.4f}" for a, b in ROWS) + "\n"


def npz(**arrays):
    """The bytes of an archive."""
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def packed(**arrays):
    """The bytes of a compressed archive."""
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


def flipped(raw, at):
    """Bytes with one of them changed."""
    return raw[:at] + bytes([raw[at] ^ 0xFF]) + raw[at + 1 :]


def archive(**members):
    """A zip file with any content."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as target:
        for name, text in members.items():
            target.writestr(name.replace("_", "."), text)
    return file.getvalue()


def frame(make):
    """A Parquet file of the frame that `make(pandas)` returns."""

    def write(path):
        import pandas

        make(pandas).to_parquet(path)

    return write


def netcdf(make):
    """A NetCDF file of the data set that `make(xarray)` returns."""

    def write(path):
        import xarray

        make(xarray).to_netcdf(path)

    return write


GOOD, PACKED = npz(x=ROWS), packed(x=np.random.default_rng(1).normal(size=(500, 2)))
WIDE = ",".join(map(str, range(1_000_000)))
VALUES = {"a": ROWS[:, 0], "b": ROWS[:, 1]}

FILES = [
    ("empty.csv", b"", [], "no data"),
    ("blank.csv", b"\n\n  \n", [], "no data"),
    ("comments.csv", b"# a\n# b\n", [], "no data"),
    ("header.csv", b"a,b\n", [], "no data"),
    ("separator.csv", b"sep=,\n", [], "no data"),
    ("ragged.csv", b"a,b\n1,2\n3\n", [], "row 3 has 1"),
    ("long.csv", b"a,b\n1,2\n3,4,5\n", [], "row 3 has 3"),
    ("text.csv", b"a,b\n1,2\n3,warm\n", [], "'b' is not numeric: 'warm'"),
    ("words.csv", b"a,b\nx,y\nz,w\n", [], "is not numeric"),
    ("cells.csv", b"a,b\n1,2\n3," + b"x" * 200_000 + b"\n", [], "not numeric"),
    ("digits.csv", b"a,b\n1,2\n3," + b"9" * 140_000 + b"\n", [], ""),
    ("quote.csv", b'a,b\n1,"2\n3,4\n', [], ""),
    ("wide.csv", WIDE.encode() + b"\n" + WIDE.encode(), [], "transposed"),
    ("zeros.csv", b"a,b\n1,2\0\n", [], "not text"),
    ("binary.csv", bytes(range(256)) * 9, [], "not text"),
    ("noise.csv", bytes(range(1, 32)) * 9 + b"\xff\xfe\xfd", [], "not text"),
    ("book.csv", archive(sheet="x"), [], "Excel"),
    ("old.csv", b"\xd0\xcf\x11\xe0" + b"\0" * 99, [], "Excel"),
    ("array.csv", b"\x93NUMPY" + b"\0" * 99, [], "NumPy"),
    ("cloud.csv", b"\x89HDF\r\n", [], "HDF5"),
    ("table.csv", b"PAR1xxxx", [], "Parquet"),
    ("pressed.csv", b"\x1f\x8b\x08xxxx", [], "gzip"),
    ("cut.csv", "a,b\n1,2\n".encode("utf-16")[:-1], [], "utf-16"),
    ("comma.csv", b"a,b\n1,2\n1,5,3\n", [], "--decimal ,"),
    ("mixed.csv", b"a;b\n1,5;2.5\n2,5;3.5\n", [], "--decimal ,"),
    ("missing.csv", b"a,b\n1,2\n3,4\n", ["--columns=a,z"], "no column 'z'"),
    ("twice.csv", b"a,b\n1,2\n3,4\n", ["--columns=a,a"], "twice"),
    ("clock.csv", b"a,b\n1,2\n3,4\n", ["--time-column=when"], "no column 'when'"),
    ("alone.csv", b"t\n1\n2\n", ["--time-column=t"], "no column except"),
    ("dates.csv", b"date,a\n2001-01-01,1\n2001-13-45,2\n", [], "2001-13-45"),
    ("days.csv", b"date,a\n13/04/2001,1\n14/04/2001,2\n", ["--dates=month-first"], "13/04/2001"),
    ("gaps.csv", b"t,a\n1,1\n,2\n3,3\n", [], "missing values"),
    ("when.csv", b"time,a\n1,1\nnoon,2\n3,3\n", [], "noon"),
    ("split.csv", b"a,b\n1,2\n", ["--separator=ab"], "--separator"),
    ("same.csv", b"a,b\n1,2\n", ["--separator=,", "--decimal=,"], "--separator"),
    ("empty.npz", b"", [], "empty"),
    ("text.npz", b"a,b\n1,2\n", [], "not an NPZ archive"),
    ("array.npz", b"\x93NUMPY" + b"\0" * 99, [], ".npy"),
    ("cut.npz", GOOD[:-40], [], "damaged"),
    ("half.npz", GOOD[: len(GOOD) // 2], [], "damaged"),
    ("flip.npz", flipped(GOOD, 200), [], "damaged"),
    ("flip2.npz", flipped(PACKED, 300), [], "damaged"),
    ("start.npz", b"PK\x03\x04" + b"\0" * 50, [], "damaged"),
    ("other.npz", archive(readme="hello"), [], "no array"),
    ("object.npz", npz(x=np.array([{}, 1], object)), [], "not an array"),
    ("names.npz", npz(x=ROWS, names=["a", "a"]), [], "same name"),
    ("few.npz", npz(x=ROWS, names=["a"]), [], "1 names"),
    ("many.npz", npz(x=ROWS, names=["a", "b", "c"]), [], "3 names"),
    ("scalar.npz", npz(x=ROWS, names="ab"), [], "['names']"),
    ("matrix.npz", npz(x=ROWS, names=[["a", "b"]]), [], "['names']"),
    ("complex.npz", npz(x=ROWS + 1j), [], "real numbers"),
    ("spans.npz", npz(x=ROWS.astype("timedelta64[s]")), [], "real numbers"),
    ("letters.npz", npz(x=np.array([["a", "b"]] * 9)), [], "not numeric"),
    # Two trials of three samples.
    ("cube.npz", npz(x=np.ones((2, 3, 4))), [], "too short"),
    ("point.npz", npz(x=np.ones(())), [], "[time dim]"),
    ("none.npz", npz(x=np.ones((0, 2))), [], "no data"),
    ("two.npz", npz(y=ROWS, z=ROWS), [], "--key"),
    ("key.npz", GOOD, ["--key=z"], "no array 'z'"),
    ("dt.npz", npz(x=ROWS, dt=[1.0, 2.0]), [], "['dt']"),
    ("wide.npz", npz(x=np.ones((2, 10**6))), [], "transposed"),
    ("text.parquet", b"a,b\n1,2\n", [], "Parquet"),
    ("empty.parquet", b"", [], "Parquet"),
    ("cut.parquet", b"PAR1" + b"\0" * 40, [], "Parquet"),
    ("words.parquet", frame(lambda pd: pd.DataFrame({"a": ["x", "y"], "b": [1, 2]})), [],
     "too short"),
    ("text.nc", b"a,b\n1,2\n", [], "NetCDF"),
    ("empty.nc", b"", [], "NetCDF"),
    ("scalar.nc", netcdf(lambda xr: xr.Dataset({"s": 1.0, "a": ("time", ROWS[:, 0])})),
     ["--key=s"], "single number"),
    ("cube.nc", netcdf(lambda xr: xr.Dataset({"m": (("a", "b", "time"), np.ones((2, 3, 4)))})),
     ["--key=m"], "--variables a,b"),
    ("key.nc", netcdf(lambda xr: xr.Dataset({"a": ("time", ROWS[:, 0])})), ["--key=z"],
     "no variable 'z'"),
    ("sheet.xlsx", archive(sheet="x"), [], "spreadsheet"),
    ("sheet.xls", b"x", [], "spreadsheet"),
    ("noname", b"1 2\n", [], "Cannot tell the format"),
    ("data.json", b"{}", [], "no data"),
    ("half.json", b'{"a": [1, 2', [], "JSON"),
    ("cut.csv.gz", gzip.compress(CSV.encode())[:-20], [], "damaged"),
    ("two.zip", archive(a="1 2", b="3 4"), [], "a, b"),
    ("thin.npy", b"\x93NUMPY" + b"\0" * 99, [], "NumPy"),
    ("names.csv", b"a,b\n1,2,3,4\n5,6,7,8\n", [], "2 names"),
    ("data.pkl", b"x", [], "Cannot tell the format"),
]  # fmt: skip

OK = "good.csv"
COMMANDS = [
    (["nowhere.csv"], "No such file"),
    (["."], "directory"),
    ([], "either a data file or --example"),
    ([OK, "--example=enso"], "either a data file or --example"),
    (["--example=el_nino"], "enso, tropical_pacific"),
    (["--example=enso", "--columns=z"], "no column 'z'"),
    ([OK, "--dt=0"], "--dt"),
    ([OK, "--dt=-1"], "--dt"),
    ([OK, "--dt=nan"], "--dt"),
    ([OK, "--dt=inf"], "--dt"),
    ([OK, "--dt=fast"], "--dt"),
    ([OK, "--dt=1e-300"], "dt must be"),
    ([OK, "--dt=1e300"], "dt must be"),
    ([OK, "--dt=1", "--seed=99999999999999999999999"], "--seed"),
    ([OK, "--dt=1", "--seed=-1"], "--seed"),
    ([OK, "--dt=1", "--seed=1.5"], "--seed"),
    ([OK, "--dt=1", "--lags=0:10000000"], "--lags"),
    ([OK, "--dt=1", "--lags=" + "9" * 5000], "--lags"),
    ([OK, "--dt=1", "--lags=-1,0"], "--lags"),
    ([OK, "--dt=1", "--lags=a"], "--lags"),
    ([OK, "--dt=1", "--lags=0:4:0"], "--lags"),
    ([OK, "--dt=1", "--lags="], "--lags"),
    ([OK, "--dt=1", "--lags=0,500"], "largest lag"),
    ([OK, "--dt=1", "--lags=0:9999"], "lag"),
    ([OK, "--dt=1", "--scheme=spline"], "--scheme"),
    ([OK, "--dt=1", "--search=magic"], "--search"),
    ([OK, "--dt=1", "--coefficient=-1"], "--coefficient"),
    ([OK, "--dt=1", "--coefficient=x"], "--coefficient"),
    ([OK, "--dt=1", "--decimal=x"], "--decimal"),
    ([OK, "--dt=1", "--forbid=a"], "--forbid"),
    ([OK, "--dt=1", "--forbid=a>z"], "no variable 'z'"),
    ([OK, "--dt=1", "--forbid=a>b@7"], "lag 7"),
    ([OK, "--dt=1", "--require=a>b", "--lags=0,1"], "at which lag"),
    ([OK, "--dt=1", "--require=a>b@0", "--forbid=a>b"], "both required and forbidden"),
    ([OK, "--dt=1", "--exogenous=z"], "no variable 'z'"),
    ([OK, "--dt=1", "--columns=z"], "no column 'z'"),
    ([OK, "--dt=1", "--out=good.csv"], "--out"),
    ([OK, "--dt=1", "--nonsense"], "--nonsense"),
]  # fmt: skip

# Files that are read: name, content, options, what the columns hold, and words of the notice.
READ = [
    ("plain.csv", CSV.encode(), {}, ROWS, None),
    ("mark.csv", b"\xef\xbb\xbf" + CSV.encode(), {}, ROWS, None),
    ("wide.csv", CSV.encode("utf-16"), {}, ROWS, None),
    ("wider.csv", CSV.encode("utf-32"), {}, ROWS, None),
    ("windows.csv", CSV.replace("\n", "\r\n").encode(), {}, ROWS, None),
    ("accent.csv", CSV.replace("a,", "é,", 1).encode("latin-1"), {}, ROWS, "Latin-1"),
    ("comma.csv", CSV.replace(",", ";").replace(".", ",").encode(), {}, ROWS, "decimal comma"),
    ("tab.csv", CSV.replace(",", "\t").replace(".", ",").encode(), {}, ROWS, "decimal comma"),
    ("bar.csv", CSV.replace(",", "|").encode(), {"separator": "|"}, ROWS, None),
    ("lone.csv", b"a\n1,5\n2,5\n", {}, np.array([[1.5], [2.5]]), "decimal comma"),
    ("one.csv", b"a\n1,5\n2,5\n", {"decimal": ","}, np.array([[1.5], [2.5]]), None),
    ("thousand.csv", b"a;b\n1.234,5;1\n2,5;2\n", {}, np.array([[1234.5, 1], [2.5, 2]]), "comma"),
    ("whole.csv", b"1,5\n2,5\n", {}, np.array([[1.0, 5], [2, 5]]), "--decimal ,"),
    ("row.csv", b"1950,3\n", {}, np.array([[1950.0, 3]]), "--decimal ,"),
    ("gaps.csv", b"a,b\n1,\n,NaN\n3,4\n", {}, np.array([[1, np.nan], [np.nan] * 2, [3, 4]]), None),
    ("double.csv", CSV.replace("a,b", "a,a").encode(), {}, ROWS, "renamed: a, a.1"),
    ("nameless.csv", CSV.replace("a,b", "a,").encode(), {}, ROWS, "one name short"),
    ("packed.csv.gz", gzip.compress(CSV.encode()), {}, ROWS, None),
    ("packed.zip", archive(table_csv=CSV), {}, ROWS, None),
    ("old.txt", CSV.replace("\n", "\r").encode("utf-16-le"), {}, ROWS, None),
    ("good.npz", GOOD, {}, ROWS, None),
    ("whole.npz", npz(x=np.arange(6).reshape(3, 2)), {}, np.arange(6.0).reshape(3, 2), None),
    ("flat.npz", npz(series=ROWS[:, 0]), {}, ROWS[:, :1], None),
    ("zone.parquet", frame(lambda pd: pd.DataFrame(VALUES, index=pd.date_range(
        "2001-03-24", periods=30, freq="h", tz="Europe/Berlin"))), {}, ROWS, None),
]  # fmt: skip


def write(path: Path, content) -> Path:
    """The file on disk."""
    if callable(content):
        content(path)
    else:
        path.write_bytes(content)
    return path
