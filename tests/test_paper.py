"""The paper's experiments as data, their claims and verdicts, and the whole of it at smoke scale."""

from __future__ import annotations

import csv
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from igfl.cli.main import run
from igfl.paper.claims import CLAIMS, Beats, Claim, Finds, Grows
from igfl.paper.experiments import EXPERIMENTS, TABLES, Cell, by_weight
from igfl.paper.printed import PRINTED
from igfl.paper.scales import GRID, SCALES, config_of, stands_in
from igfl.reproduce.layout import as_csv, as_latex, as_markdown, laid_out
from igfl.reproduce.records import Ledger, Record, trial_of
from igfl.reproduce.search import Outcome, looking, outcome_of
from igfl.reproduce.verdicts import verdict_of

pytestmark = pytest.mark.xdist_group("paper")  # one smoke for all
FULL, REDUCED, SMOKE = SCALES["full"], SCALES["reduced"], SCALES["smoke"]


def cell(table: str, column: str, row: str) -> Cell:
    return Cell(table=table, column=column, row=row)


# What the paper does


def test_settings_are_the_papers() -> None:
    """Rounds, B, E, P, S and rho as the paper has them, column by column."""
    told = {
        name: {column: (s.data, s.kind, s.clients, s.cohort, s.batch, s.epochs, s.rounds, s.split.get("rho"))
               for column, s in table.columns.items()}
        for name, table in TABLES.items()
    }  # fmt: skip
    assert told["table1"] == {
        "E=1": ("cifar10", "silo", 10, 10, 100, 1, 5000, None), "E=5": ("cifar10", "silo", 10, 10, 100, 5, 3000, None),
    }  # fmt: skip
    for rho in (1000, 1, 0.1):
        assert told["table2"][f"rho={rho:g}, E=1"] == ("cifar10", "device", 100, 10, 100, 1, 10_000, rho)
        assert told["table2"][f"rho={rho:g}, E=5"] == ("cifar10", "device", 100, 10, 100, 5, 4000, rho)
        assert told["table3"][f"rho={rho:g}"] == ("emnist", "device", 100, 10, 100, 1, 1500, rho)
    assert {(c[4], c[5]) for c in told["table4"].values()} == {(20, 1), (20, 5), (100, 1), (100, 5)}
    assert GRID == (0.001, 0.003, 0.01, 0.03, 0.1, 0.3)


def test_one_cell_stands_under_both_readings_of_the_prior() -> None:
    ones, probability = (
        config_of(cell("table2", column, "IGFL"), FULL, 0.01, 0)
        for column in ("rho=0.1, E=1", "rho=0.1, E=1, Dir(rho q)")
    )
    assert ones.split.options == {"rho": 0.1}
    assert probability.split.options == {"rho": 0.1, "prior": "probability"}


def test_full_scale_has_the_papers_networks_and_data() -> None:
    cifar = config_of(cell("table1", "E=1", "FedAvg"), FULL, 0.1, 0)
    assert (cifar.data.name, cifar.data.augment, cifar.model.name) == ("cifar10", "tutorial", "mcmahan_cnn")
    assert cifar.engine.precision == "fp32"
    emnist = config_of(cell("table3", "rho=1", "FedAvg"), FULL, 0.1, 0)
    assert (emnist.data.name, emnist.model.name, emnist.cohort) == ("emnist", "reddi_cnn", 10)
    assert stands_in(FULL, "cifar10") is None
    assert stands_in(SMOKE, "emnist") == "digits"


def test_reduced_emnist_without_its_files_says_what_stands_in(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, real_data: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("IGFL_DATA_DIR", str(real_data))
    assert stands_in(REDUCED, "emnist") == "handwritten62"
    layout = laid_out("table3", REDUCED, looking(REDUCED, Ledger(tmp_path / "none.jsonl")))
    assert "[handwritten62 in the place of EMNIST]" in layout.title
    from igfl.paper.stand_in import handwritten62

    found = handwritten62()
    assert (len(found.x) + len(found.test.x), found.shape, len(found.classes)) == (5738, (1, 28, 28), 62)


@pytest.mark.parametrize("size", SCALES.values(), ids=list(SCALES))
def test_every_cell_is_a_run_that_can_be(size: Any) -> None:
    for table in EXPERIMENTS.values():
        for each in table.cells():
            config = config_of(each, size, 0.1, 0)
            assert config.split.clients == each.setting.clients
            assert config.train.epochs == each.setting.epochs


def test_claims_name_cells_that_exist() -> None:
    for claim in CLAIMS:
        for needed in claim.cells:
            assert needed in EXPERIMENTS[needed.table].cells(), (claim.name, needed)
    assert len({claim.name for claim in CLAIMS}) == len(CLAIMS)


def test_printed_numbers_belong_to_cells() -> None:
    assert all(cell(*place) in EXPERIMENTS[place[0]].cells() for place in PRINTED)


def test_the_most_telling_cells_come_first() -> None:
    cells = by_weight([c for table in EXPERIMENTS.values() for c in table.cells()])
    assert {(c.table, c.column) for c in cells[:7]} == {("table2", "rho=0.1, E=1")}
    assert len(cells) == len(set(cells))


# From records to outcomes


def ledger_with(tmp_path: Path, size: Any, told: dict[tuple[Cell, float, int, int], float | int]) -> Ledger:
    """Records of (cell, rate, seed, rounds): an accuracy, or the round it diverged in."""
    ledger = Ledger(tmp_path / f"{len(list(tmp_path.iterdir()))}.jsonl")
    for (place, rate, seed, rounds), value in told.items():
        config = config_of(place, size, rate, seed, rounds)
        fell = value if isinstance(value, int) else None
        accuracy = None if fell is not None else value
        ledger.add(Record(trial=trial_of(config), rounds=rounds, accuracy=accuracy, diverged=fell))
    return ledger


HERE = cell("table2", "rho=0.1, E=1", "FedAvg")
TUNING, WHOLE = 90, 360  # of 0.25 and of all rounds of the reduced scale


def tuned(*values: float | int) -> dict[tuple[Cell, float, int, int], float | int]:
    return {(HERE, rate, 0, TUNING): value for rate, value in zip(REDUCED.rates, values, strict=False)}


def test_every_rate_is_tried_before_any_goes_on(tmp_path: Path) -> None:
    outcome = outcome_of(HERE, REDUCED, ledger_with(tmp_path, REDUCED, tuned(0.2, 0.3)))
    assert [(c.train.lr, c.rounds) for c in outcome.missing] == [(0.1, TUNING)]
    assert outcome.mean is None


def test_the_best_rate_goes_on(tmp_path: Path) -> None:
    outcome = outcome_of(HERE, REDUCED, ledger_with(tmp_path, REDUCED, tuned(0.2, 0.4, 0.3)))
    assert [(c.train.lr, c.rounds, c.seed) for c in outcome.missing] == [(0.03, WHOLE, 0)]
    assert not outcome.on_the_edge
    several = replace(REDUCED, seeds=3)
    more = outcome_of(
        HERE, several, ledger_with(tmp_path, REDUCED, tuned(0.2, 0.3, 0.4) | {(HERE, 0.1, 0, WHOLE): 0.5})
    )
    assert [c.seed for c in more.missing] == [1, 2]
    assert more.on_the_edge
    assert more.accuracies == {0: 0.5}


def test_a_rate_that_diverges_later_gives_way_to_the_next(tmp_path: Path) -> None:
    told = tuned(0.2, 0.4, 0.3) | {(HERE, 0.03, 0, WHOLE): 110}
    outcome = outcome_of(HERE, REDUCED, ledger_with(tmp_path, REDUCED, told))
    assert [(c.train.lr, c.rounds) for c in outcome.missing] == [(0.1, WHOLE)]


def test_where_every_rate_diverges_the_cell_has_a_dash(tmp_path: Path) -> None:
    told = tuned(20, 0.4, 3) | {(HERE, 0.03, 0, WHOLE): 110}
    ledger = ledger_with(tmp_path, REDUCED, told)
    outcome = outcome_of(HERE, REDUCED, ledger)
    assert not outcome.missing
    assert outcome.diverged == 110
    layout = laid_out("table2", REDUCED, looking(REDUCED, ledger))
    assert layout.rows[0][layout.header.index("rho=0.1, E=1")] == "– (110)"
    assert "· : not run yet" in " ".join(layout.below).replace("·:", "· :")


def test_a_ledger_reads_what_it_wrote_and_names_a_broken_line(tmp_path: Path) -> None:
    ledger_with(tmp_path, REDUCED, tuned(0.2, 0.3, 0.4))
    (path,) = tmp_path.iterdir()
    again = Ledger(path)
    assert again.find(config_of(HERE, REDUCED, 0.03, 0, TUNING)) is not None
    assert again.find(config_of(HERE, REDUCED, 0.03, 1, TUNING)) is None
    path.write_text(path.read_text() + '{"trial": "x"}\n')
    with pytest.raises(ValueError, match=r"line 4: no record of ours"):
        Ledger(path)


# Verdicts


def outcome(place: Cell, *accuracies: float, diverged: int | None = None) -> Outcome:
    records = {seed: Record(trial=str(seed), rounds=10, accuracy=a) for seed, a in enumerate(accuracies)}
    return Outcome(cell=place, records=records, diverged=diverged)


A, B = cell("table1", "E=1", "IGFL"), cell("table1", "E=1", "FedAvg")
BEATS = Claim(name="a", sentence="a beats b", rule=Beats(pairs=[(A, [B])]))


def judged(claim: Claim, *outcomes: Outcome, size: Any = REDUCED) -> str:
    known = {each.cell: each for each in outcomes}
    return verdict_of(claim, size, known.__getitem__).word


def test_what_is_clear_over_three_seeds_is_said() -> None:
    assert judged(BEATS, outcome(A, 0.62, 0.61, 0.63), outcome(B, 0.52, 0.53, 0.52)) == "holds"
    assert judged(BEATS, outcome(A, 0.52, 0.51, 0.53), outcome(B, 0.62, 0.63, 0.62)) == "does not hold"


def test_what_is_not_clear_is_not_decided() -> None:
    assert judged(BEATS, outcome(A, 0.62, 0.61), outcome(B, 0.52, 0.53)) == "not yet decided"  # two seeds
    assert judged(BEATS, outcome(A, 0.62, 0.50, 0.60), outcome(B, 0.52, 0.55, 0.57)) == "not yet decided"  # too close
    whole = (outcome(A, 0.62, 0.61, 0.63), outcome(B, 0.52, 0.53, 0.52))
    assert judged(BEATS, *whole, size=SMOKE) == "not yet decided"
    assert judged(BEATS, whole[0], outcome(B)) == "not yet decided"  # not run yet
    assert judged(BEATS, whole[0], outcome(B, 0.52)) == "not yet decided"  # one seed in common


def test_a_lead_smaller_than_claimed_does_not_hold() -> None:
    thirteen = Claim(name="a", sentence="by ten points", rule=Beats(pairs=[(A, [B])], by=0.1))
    assert judged(thirteen, outcome(A, 0.62, 0.61, 0.63), outcome(B, 0.56, 0.57, 0.56)) == "does not hold"
    assert judged(thirteen, outcome(A, 0.72, 0.71, 0.73), outcome(B, 0.56, 0.57, 0.56)) == "holds"


def test_who_diverges_is_beaten_and_beats_nobody() -> None:
    assert judged(BEATS, outcome(A, 0.62, 0.61, 0.63), outcome(B, diverged=7)) == "holds"
    assert judged(BEATS, outcome(A, diverged=7), outcome(B, 0.2, 0.2, 0.2)) == "does not hold"


def test_one_part_that_does_not_hold_decides() -> None:
    other = cell("table1", "E=1", "FedAvgM")
    both = Claim(name="a", sentence="a beats both", rule=Beats(pairs=[(A, [B, other])]))
    ours = outcome(A, 0.62, 0.61, 0.63)
    assert judged(both, ours, outcome(B, 0.52, 0.53, 0.52), outcome(other, 0.72, 0.73, 0.72)) == "does not hold"
    assert judged(both, ours, outcome(B, 0.52, 0.53, 0.52), outcome(other, 0.42)) == "not yet decided"


def test_a_lead_that_grows() -> None:
    early, late = (cell("table4", column, "IGFL-C") for column in ("B=100, E=1", "B=20, E=5"))
    first, last = (cell("table4", column, "FedAvgM") for column in ("B=100, E=1", "B=20, E=5"))
    grows = Claim(name="a", sentence="it grows", rule=Grows(leads=[(early, first), (late, last)]))
    base = [outcome(place, 0.5, 0.51, 0.49) for place in (first, last)]
    assert judged(grows, *base, outcome(early, 0.52, 0.53, 0.51), outcome(late, 0.60, 0.61, 0.60)) == "holds"
    assert judged(grows, *base, outcome(early, 0.60, 0.61, 0.60), outcome(late, 0.52, 0.53, 0.51)) == "does not hold"
    assert judged(grows, *base, outcome(early, 0.60, 0.61, 0.60), outcome(late, diverged=3)) == "not yet decided"


def test_populations_decide_on_the_matching_rate() -> None:
    place = cell("figure2", "paired", "IGFL-S self")
    finds = Claim(name="a", sentence="it finds them", rule=Finds(cells=[place], rate=0.96))
    together = [[False, True, False], [True, False, False], [False, False, False]]

    def population(seed: int, right: bool) -> Record:
        best = [[0, 1, 0], [1, 0, 0], [0, 0, 0]] if right else [[0, 0, 1], [0, 0, 0], [1, 0, 0]]
        return Record(trial=str(seed), rounds=1, accuracy=0.1, attention=best, together=together)  # type: ignore[arg-type]

    def records(wrong: int, n: int = 20) -> Outcome:
        return Outcome(cell=place, records={i: population(i, i >= wrong) for i in range(n)})

    assert judged(finds, records(0)) == "holds"
    assert judged(finds, records(0, 19)) == "not yet decided"
    assert judged(finds, records(1)) == "not yet decided"
    assert judged(finds, records(10)) == "does not hold"


# The whole of it


@pytest.fixture(scope="module")
def smoke(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All cells of all tables and figures, by the command that people use."""
    place = tmp_path_factory.mktemp("reproduction")
    command = [
        "reproduce",
        "all",
        "--scale",
        "smoke",
        "--results",
        str(place / "results"),
        "--under",
        str(place / "runs"),
    ]
    assert run(command) == 0
    return place


def test_every_cell_of_every_table_is_filled(smoke: Path) -> None:
    for name in EXPERIMENTS:
        rows = list(csv.reader((smoke / "results" / "smoke" / f"{name}.csv").read_text().splitlines()))
        assert len(rows) > 1
        for row in rows[1:]:
            assert all(word.strip() and word != "·" for word in row), (name, row)


def test_a_second_command_runs_nothing(smoke: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ledger = smoke / "results" / "smoke.jsonl"
    before = ledger.read_text()
    common = ["--scale", "smoke", "--results", str(smoke / "results"), "--under", str(smoke / "runs"), "--json"]
    assert run(["reproduce", "table4", "figure2", *common]) == 0
    told = capsys.readouterr()
    assert "begin" not in told.err
    assert ledger.read_text() == before
    found = json.loads(told.out)
    assert [table["name"] for table in found["tables"]] == ["figure2", "table4"]
    assert {verdict["verdict"] for verdict in found["verdicts"]} == {"not yet decided"}


def test_records_say_how_to_run_a_cell_again(smoke: Path, tmp_path: Path) -> None:
    """Its configuration, in a run of its own, gives its digest."""
    import yaml

    lines = [json.loads(line) for line in (smoke / "results" / "smoke.jsonl").read_text().splitlines()]
    record = next(
        line for line in lines if line["config"]["method"].get("attention") == "global" and line["rounds"] == 4
    )
    assert {"packages", "processor", "commit"} <= record["environment"].keys()
    path = tmp_path / "again.yaml"
    path.write_text(yaml.safe_dump(record["config"]))
    assert run(["run", str(path), "--under", str(tmp_path / "runs")]) == 0
    (folder,) = (tmp_path / "runs").iterdir()
    assert json.loads((folder / "summary.json").read_text())["digest"] == record["digest"]


def test_tables_come_in_four_forms(smoke: Path) -> None:
    layout = laid_out("table4", SMOKE, looking(SMOKE, Ledger(smoke / "results" / "smoke.jsonl")))
    assert len(list(csv.reader(as_csv(layout).splitlines()))) == 3
    assert "| FedAvgM |" in as_markdown(layout)
    latex = as_latex(layout)
    assert latex.count(r"\\") >= 3
    assert all(rule in latex for rule in (r"\toprule", r"\midrule", r"\bottomrule"))
    assert "_" not in latex.replace(r"\_", "")
    assert "the numbers mean nothing" in " ".join(layout.above)


def test_a_claim_is_not_decided_on_another_data_set(tmp_path: Path, real_data: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("IGFL_DATA_DIR", str(real_data))
    claim = next(claim for claim in CLAIMS if claim.name == "emnist")

    def look(place: Cell) -> Outcome:
        return outcome(place, *((0.8, 0.81, 0.82) if place.row == "IGFL" else (0.5, 0.51, 0.5)))

    verdict = verdict_of(claim, REDUCED, look)
    assert (verdict.word, verdict.why) == ("not yet decided", "trained on handwritten62, which is another data set")


def test_divergence_decides_only_against_three_seeds() -> None:
    assert judged(BEATS, outcome(A, 0.62), outcome(B, diverged=7)) == "not yet decided"
    assert judged(BEATS, outcome(A, diverged=7), outcome(B, 0.2)) == "not yet decided"


def test_what_stands_in_is_printed(smoke: Path, capsys: pytest.CaptureFixture[str]) -> None:
    common = ["--scale", "smoke", "--results", str(smoke / "results"), "--under", str(smoke / "runs"), "--show"]
    assert run(["reproduce", "table3", *common]) == 0
    assert "[digits in the place of EMNIST]" in " ".join(capsys.readouterr().out.split())


def test_all_seeds_there_are_count_whatever_is_asked(smoke: Path, tmp_path: Path) -> None:
    place = cell("table4", "B=100, E=1", "IGFL-C")
    ledger = Ledger(smoke / "results" / "smoke.jsonl")
    rate = looking(SMOKE, ledger)(place).rate
    assert rate is not None
    shutil.copy(smoke / "results" / "smoke.jsonl", tmp_path)
    more = Ledger(tmp_path / "smoke.jsonl")
    for seed in (1, 2):
        more.add(Record(trial=trial_of(config_of(place, SMOKE, rate, seed)), rounds=4, accuracy=0.5))
    assert len(looking(SMOKE, more)(place).accuracies) == 3
    assert run(["reproduce", "table4", "--scale", "smoke", "--results", str(tmp_path), "--show", "--seeds", "5"]) == 0
    rows = list(csv.reader((tmp_path / "smoke" / "table4.csv").read_text().splitlines()))
    assert rows[2][1].endswith("(3)")
    assert "·" not in rows[1][1]


def test_a_population_without_attention_is_trained_again(tmp_path: Path) -> None:
    """figure2's first population is table5's run, which keeps no attention."""
    place = cell("figure2", "random", "IGFL-S self")
    ledger = Ledger(tmp_path / "l.jsonl")
    config = config_of(place, SMOKE, SMOKE.rates[1], 0)
    ledger.add(Record(trial=trial_of(config), rounds=4, accuracy=0.5))
    assert len(outcome_of(place, SMOKE, ledger).missing) == 2


def test_a_torn_last_line_is_dropped(tmp_path: Path) -> None:
    ledger_with(tmp_path, REDUCED, tuned(0.2, 0.3))
    (path,) = tmp_path.iterdir()
    whole = path.read_text()
    path.write_text(whole + whole.splitlines()[0][:40])
    assert Ledger(path).find(config_of(HERE, REDUCED, 0.03, 0, TUNING)) is not None
    assert path.read_text() == whole


def test_figures_are_drawn_alike_every_time(smoke: Path, tmp_path: Path) -> None:
    assert (
        run(
            [
                "report",
                "figure1",
                "--scale",
                "smoke",
                "--results",
                str(smoke / "results"),
                "--draw",
                str(tmp_path / "f"),
            ]
        )
        == 0
    )
    for kind in ("svg", "png", "pdf"):
        drawn = (smoke / "results" / "smoke" / f"figure1.{kind}").read_bytes()
        assert drawn == (tmp_path / f"f.{kind}").read_bytes()


def test_a_budget_stops_and_the_same_command_goes_on(tmp_path: Path, smoke: Path) -> None:
    common = [
        "reproduce",
        "figure1",
        "--scale",
        "smoke",
        "--results",
        str(tmp_path / "r"),
        "--under",
        str(tmp_path / "w"),
    ]
    assert run([*common, "--budget", "0s"]) == 1
    assert not (tmp_path / "r" / "smoke.jsonl").exists()
    stops = 0
    while run([*common, "--budget", "4s"]) == 1:
        stops += 1
        assert stops < 40
    assert stops
    whole, parts = (Ledger(place / "smoke.jsonl") for place in (smoke / "results", tmp_path / "r"))
    for each in EXPERIMENTS["figure1"].cells():
        one, two = (looking(SMOKE, ledger)(each) for ledger in (whole, parts))
        assert {s: r.digest for s, r in one.records.items()} == {s: r.digest for s, r in two.records.items()}


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (["table6"], "experiment='table6': unknown, did you mean table"),
        (["table1", "--scale", "tiny"], "scale='tiny': unknown, choose one of full, reduced, smoke"),
        (["table1", "--budget", "long"], "budget='long': say how long as 90m"),
        (["table1", "--column", "E=2"], "column='E=2': unknown, did you mean E="),
        (["table1", "--row", "FedProx"], "row='FedProx': unknown, choose one of FedAvg"),
        (["table1", "figure2", "--row", "IGFL", "--column", "random"], "no cell has both"),
        (["table1", "--workers", "0"], "workers=0: at least one"),
        (["table1", "--seeds", "-1"], "seeds=-1: at least one"),
    ],
)
def test_mistypings_are_one_line(command: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["reproduce", *command]) == 2
    error = capsys.readouterr().err
    assert told in error
    assert error.count("\n") == 1
