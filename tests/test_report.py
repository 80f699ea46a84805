"""The page: gathered, thinned, self-contained; and opened in a real browser."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from igfl.cli.main import run
from igfl.report.gather import POINTS, gathered, series_of
from igfl.report.page import page

pytestmark = pytest.mark.xdist_group("report")  # one browser for all
CHROMIUM = shutil.which("chromium")
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two seeds of a method with attention, one of another without, and one with a sampled cohort."""
    under = tmp_path_factory.mktemp("report")
    common = ["rounds=10", "behaviour=1", "evaluate=2", "engine.name=loop", "train.batch=50"]
    sampled = ["method=igfl/global", "split.name=dirichlet", "split.rho=0.1", "split.clients=20", "cohort=6"]
    for options in (["method=igfl/self"], ["method=igfl/self", "seed=1"], ["method=fedavg"], sampled):
        assert run(["run", "--under", str(under), *common, *options]) == 0
    return sorted(under.iterdir())


@pytest.fixture(scope="module")
def made(runs: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("page") / "report.html"
    assert run(["report", *map(str, runs), "--out", str(out)]) == 0
    return out


def content(path: Path) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', path.read_text(), re.DOTALL)
    assert found
    told: dict[str, Any] = json.loads(found[1])
    return told


def test_the_page_holds_what_the_runs_say(made: Path, runs: list[Path]) -> None:
    told = content(made)
    assert [run["name"] for run in told["runs"]] == [path.name for path in runs]
    assert [group["runs"] for group in told["groups"]] == [[0, 1], [2], [3]]
    summary = json.loads((runs[0] / "summary.json").read_text())
    assert told["runs"][0]["digest"] == summary["digest"]
    assert told["runs"][0]["summary"]["accuracy_last10pct"] == summary["accuracy_last10pct"]
    assert told["runs"][3]["behaviour"]["snapshots"][0]["clients"] == sorted(
        told["runs"][3]["behaviour"]["snapshots"][0]["clients"]
    )
    assert {len(s["clients"]) for s in told["runs"][3]["behaviour"]["snapshots"]} == {6}
    assert np.sum(next(iter(told["partitions"].values()))["counts"]) == 1420


def test_the_page_asks_nobody_for_anything(made: Path) -> None:
    text = made.read_text().replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?://|//[a-z]+\.|@import|url\(", text)
    assert "<link" not in text.replace('<link rel="icon" href="data:,">', "")
    assert "src=" not in text


def test_text_of_a_run_cannot_end_the_script() -> None:
    made = page("a </title><b>", {"runs": [], "note": "</script><script>alert(1)</script>", "nan": float("nan")})
    assert made.count("</script>") == 2
    assert "<b>" not in made
    assert '"nan":null' in made


def test_curves_are_thinned_and_keep_their_ends() -> None:
    rows = [{"round": r, "train/loss": 1 / r, "comm/up_bytes": 3, "comm/down_bytes": 4} for r in range(1, 10_001)]
    series = series_of(rows)["train/loss"]
    assert len(series["value"]) <= POINTS
    assert (series["round"][0], series["round"][-1]) == (1, 10_000)
    assert series["bytes"][-1] == 70_000


@pytest.mark.parametrize("figure", ["accuracy", "loss", "drift", "attention"])
def test_figures_come_in_three_kinds(runs: list[Path], figure: str, tmp_path: Path) -> None:
    assert run(["report", *map(str, runs[:3]), "--draw", str(tmp_path / "f"), "--figure", figure]) == 0
    begins = {"pdf": b"%PDF", "svg": b"<?xml", "png": b"\x89PNG"}
    assert {path.suffix[1:]: path.read_bytes()[:4] for path in tmp_path.iterdir()} == {
        k: v[:4] for k, v in begins.items()
    }


@pytest.mark.parametrize(
    ("what", "told"),
    [
        (["tabel1"], "report='tabel1': unknown, did you mean table1?"),
        (["nowhere/run-001"], "nowhere/run-001: no run is here"),
        (["table1", "runs/run-001"], "name run folders, or experiments"),
        (["table1", "--scale", "tiny"], "scale='tiny': unknown"),
    ],
)
def test_mistypings_are_one_line(what: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["report", *what]) == 2
    error = capsys.readouterr().err
    assert told in error
    assert error.count("\n") == 1


# In a browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        if os.environ.get("IGFL_NEED_BROWSER"):
            pytest.fail("IGFL_NEED_BROWSER is set, and there is no chromium on the path")
        pytest.skip("no chromium on the path: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield started
        started.close()


@pytest.fixture(params=[(1600, "light"), (400, "dark")], ids=["wide light", "narrow dark"])
def opened(browser: Any, made: Path, request: pytest.FixtureRequest) -> Iterator[Any]:
    """The page in a window of this width, with no network; any complaint of the browser's fails the test."""
    width, scheme = request.param
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True)
    window, complaints = context.new_page(), []
    window.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
    window.on("pageerror", lambda error: complaints.append(str(error)))
    window.on(
        "request", lambda asked: complaints.append(asked.url) if not asked.url.startswith(("file:", "data:")) else None
    )
    window.goto(made.as_uri())
    window.wait_for_selector("body[data-ready=yes]")
    yield window
    assert not complaints
    context.close()


def test_it_fits_and_shows_everything(opened: Any) -> None:
    assert opened.evaluate("document.documentElement.scrollWidth <= innerWidth")
    for section in ("runs", "curves", "partition", "behaviour", "details"):
        assert opened.locator(f"#{section}").is_visible()
    assert opened.locator("#runs-table tbody tr").count() == 3
    assert opened.locator(".chart svg").count() >= 6


def test_the_switch_changes_the_axis(opened: Any) -> None:
    first = opened.locator(".chart svg").first
    before = first.inner_html()
    for axis, word in (("bytes", "bytes"), ("steps", "local steps"), ("round", "rounds")):
        opened.locator(f"input[name=axis][value={axis}]").check()
        assert opened.locator("#charts").get_attribute("data-axis") == axis
        assert word in opened.locator(".chart svg").first.inner_html()
    assert opened.locator(".chart svg").first.inner_html() == before


def test_the_slider_moves_the_matrix_by_keyboard(opened: Any) -> None:
    shown = opened.locator("#heat")
    first = shown.get_attribute("data-shows")
    slider = opened.locator("#slider")
    slider.focus()
    opened.keyboard.press("ArrowRight")
    assert opened.locator("#at").inner_text() == "2"
    second = shown.get_attribute("data-shows")
    assert second != first
    opened.keyboard.press("End")
    assert opened.locator("#at").inner_text() == "10"
    seen = {first, second, shown.get_attribute("data-shows")}
    for choice in ("kind][value=cosine", "span][value=mean"):
        opened.locator(f"input[name={choice}]").check()
        seen.add(shown.get_attribute("data-shows"))
    assert len(seen) == 5


def test_the_matrix_is_the_servers_attention(opened: Any, runs: list[Path]) -> None:
    """What the page computes from dot products is what the weights came from."""
    computed = opened.evaluate("valuesOf(data.runs[0].behaviour.snapshots[3], 'attention')")
    with np.load(runs[0] / "behaviour" / "00000004.npz") as stored:
        assert np.allclose(np.mean(computed, axis=0), stored["weights"], atol=1e-3)


def test_cells_can_be_walked_by_keyboard(opened: Any) -> None:
    opened.locator("#heat").focus()
    opened.keyboard.press("ArrowRight")
    assert opened.locator("#heat-says").inner_text().startswith("client 0, client 1: attention ")
    opened.keyboard.press("ArrowDown")
    assert opened.locator("#heat-says").inner_text().startswith("client 1, client 1: attention ")


def test_another_run_is_picked_and_the_theme_changes(opened: Any) -> None:
    opened.locator("#behaviour-pick").select_option("3")
    assert "Correlation" in opened.locator("#scatter-says").inner_text()
    colour = "getComputedStyle(document.body).backgroundColor"
    before = opened.evaluate(colour)
    opened.locator("#theme").click()
    assert opened.evaluate(colour) != before


def test_a_group_can_be_hidden(opened: Any) -> None:
    lines = "document.querySelector('.chart svg').querySelectorAll('polyline').length"
    assert opened.evaluate(lines) == 3
    opened.locator("#runs-table input").first.uncheck()
    assert opened.evaluate(lines) == 2


def test_one_run_with_nothing_but_rows_is_a_page_too(browser: Any, tmp_path: Path) -> None:
    assert run(["run", "--under", str(tmp_path), "rounds=1", "behaviour=0", "engine.name=loop"]) == 0
    assert run(["report", str(tmp_path / "run-001"), "--out", str(tmp_path / "one.html")]) == 0
    assert gathered([tmp_path / "run-001"])["runs"][0]["behaviour"] is None
    window = browser.new_page()
    window.goto((tmp_path / "one.html").as_uri())
    window.wait_for_selector("body[data-ready=yes]")
    assert not window.locator("#behaviour").is_visible()
    assert window.locator("circle").count() >= 1
    window.close()


def test_many_clients_and_classes_are_shown(browser: Any, tmp_path: Path) -> None:
    draws = np.random.default_rng(0)
    partition = {
        "sha256": "0" * 64, "rule": "dirichlet", "parameters": {}, "sizes": [60] * 3000,
        "counts": draws.integers(0, 9, (3000, 60)).tolist(),
    }  # fmt: skip
    out = tmp_path / "many.html"
    out.write_text(page("many", {"runs": [], "groups": [], "partitions": {"0": partition}}))
    window, complaints = browser.new_page(), []
    window.on("pageerror", lambda error: complaints.append(str(error)))
    window.goto(out.as_uri())
    window.wait_for_selector("body[data-ready=yes]")
    assert "3000 clients" in window.locator("#partition-facts").inner_text()
    assert not complaints
    window.close()


@pytest.mark.slow
def test_fifty_runs_of_ten_thousand_rounds_open_at_once(browser: Any, runs: list[Path], tmp_path: Path) -> None:
    draws = np.random.default_rng(0)
    template = json.loads((runs[0] / "metrics.jsonl").read_text().splitlines()[-1])
    for i in range(50):
        folder = tmp_path / f"run-{i:03}"
        shutil.copytree(runs[0], folder, ignore=shutil.ignore_patterns("state", "*.safetensors"))
        config = folder / "config.yaml"
        config.write_text(
            config.read_text().replace("seed: 0", f"seed: {i % 5}", 1).replace("lr: 0.1", f"lr: 0.{11 + i // 5}")
        )
        noise = draws.normal(0, 0.01, 10_000)
        with (folder / "metrics.jsonl").open("w") as file:
            for round in range(1, 10_001):
                row = {**template, "round": round, "global/accuracy": 1 - 1 / (1 + round / 500) + noise[round - 1]}
                file.write(json.dumps(row) + "\n")
    out = tmp_path / "all.html"
    assert run(["report", *map(str, sorted(tmp_path.glob("run-*"))), "--out", str(out)]) == 0
    assert out.stat().st_size < 10e6
    window = browser.new_page()
    window.goto(out.as_uri())
    window.wait_for_selector("body[data-ready=yes]")
    assert window.locator("#runs-table tbody tr").count() == 10
    window.close()
