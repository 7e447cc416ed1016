from benchmarks._store import Record, Store, Unit
from benchmarks.delays.__main__ import main


def test_differences_are_paired(tmp_path, capsys):
    """By hand: two seeds of one system, and a task that only one method has done."""
    out, names = tmp_path / "r.sqlite", ("auroc", "f1")
    scores = {("search", 0): 0.5, ("search", 1): 0.8, ("discover", 0): 0.75, ("discover", 1): 0.8}
    with Store(out) as store:
        for (method, seed), value in (scores | {("discover", 2): 0.0}).items():
            of = {f"{at}.{name}": value for at in ("exact", "near", "summary") for name in names}
            unit = Unit("delays", "low", "mackey_glass", 0, method, seed)
            store.write([Record(unit, of | {"dim": 1.0, "failed": 0.0}, "ok", 1.0)])
    assert main(["table", str(out), "--less", "search"]) == 0
    (row,) = (line for line in capsys.readouterr().out.splitlines() if "discover" in line)
    cells = [cell.strip() for cell in row.split("|")[1:-1]]
    assert cells[:4] == ["low", "1-5", "discover", "2"]
    # Differences .25 and 0: mean .125, standard error .25/2.
    assert cells[4:] == ["+0.125 ± 0.125 (1 / 0)"] * 6
    assert main(["table", str(out), "--less", "granger"]) == 2
    assert "no results of granger" in capsys.readouterr().err
