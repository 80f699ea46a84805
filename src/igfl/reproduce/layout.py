"""A table of ours beside the paper's, as text, Markdown, CSV and LaTeX."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean, stdev

from igfl.paper.experiments import EXPERIMENTS, Cell, Table
from igfl.paper.printed import MATCHING, printed
from igfl.paper.scales import Scale, stands_in
from igfl.reproduce.search import Outcome
from igfl.reproduce.verdicts import Look, Verdict, matchings

OPEN = "·"  # not run yet
FELL = "–"  # diverged
NAMES = {"cifar10": "CIFAR-10", "emnist": "EMNIST"}


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Words in rows and columns, what stands above and below."""

    name: str
    title: str
    above: Sequence[str]
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    below: Sequence[str]


def laid_out(name: str, size: Scale, look: Look) -> Layout:
    """The table of this name: a column of ours, and beside it the paper's and the difference where they are known."""
    table = EXPERIMENTS[name]
    if table.populations:
        return _of_matching(table, size, look)
    known = {column: any(printed(cell) is not None for cell in _column(table, column)) for column in table.columns}
    header, rows = [""], [[row] for row in table.rows]
    for column in table.columns:
        header += [column, *(["paper", "difference"] if known[column] else [])]
        for words, cell in zip(rows, _column(table, column), strict=True):
            outcome, theirs = look(cell), printed(cell)
            words.append(_told(outcome))
            if known[column]:
                ours = outcome.mean
                words += [
                    OPEN if theirs is None else f"{theirs:.2f}",
                    OPEN if theirs is None or ours is None else f"{100 * ours - theirs:+.2f}",
                ]
    return Layout(
        name=name, title=_title(table, size), above=_scaled(size), header=header, rows=rows,
        below=_footnotes(table, look, all(known.values())),
    )  # fmt: skip


def _told(outcome: Outcome) -> str:
    """Per cent, the deviation over seeds behind it."""
    if outcome.diverged is not None:
        return f"{FELL} ({outcome.diverged})"
    if outcome.mean is None:
        return OPEN
    spread = "" if outcome.spread is None else f" ± {100 * outcome.spread:.2f} ({len(outcome.accuracies)})"
    return f"{100 * outcome.mean:.2f}{spread}"


def _of_matching(table: Table, size: Scale, look: Look) -> Layout:
    rows = []
    for cell in table.cells():
        found = matchings(look(cell))
        rates = [each.rate for each in found]
        if not rates:
            rows.append([cell.column, "0", OPEN, OPEN, OPEN, f">= {100 * MATCHING:.0f}"])
            continue
        spread = f" ± {100 * stdev(rates):.1f}" if len(rates) > 1 else ""
        rows.append([
            cell.column, str(len(rates)), f"{100 * mean(rates):.1f}{spread}",
            f"{100 * min(rates):.0f} to {100 * max(rates):.0f}", f"{100 * mean(each.zero for each in found):.1f}",
            f">= {100 * MATCHING:.0f}",
        ])  # fmt: skip
    header = ["population", "drawn", "matching rate %", "from, to", "scores of exactly 0 %", "paper"]
    rounds, rate = size.figure2["rounds"], look(table.cells()[0]).rate
    below = [f"IGFL-S, self-attention, all clients in every round, rate {rate:g}; averaged over {rounds} rounds."]
    return Layout(
        name=table.name, title=_title(table, size), above=_scaled(size), header=header, rows=rows, below=below
    )


def _column(table: Table, column: str) -> list[Cell]:
    return [Cell(table=table.name, row=row, column=column) for row in table.rows]


def _title(table: Table, size: Scale) -> str:
    """Where another data set stands in, the title says so."""
    data = next(iter(table.columns.values())).data
    other = stands_in(size, data)
    title = table.title if other is None else f"{table.title} [{other} in the place of {NAMES[data]}]"
    return f"{table.name}: {title} ({size.name} scale)"


def _scaled(size: Scale) -> list[str]:
    return [f"{what}: {how}" if what else how for what, how in size.told.items()]


def _footnotes(table: Table, look: Look, known: bool) -> list[str]:
    notes = ["Mean test accuracy over the last tenth of the rounds, per cent; ± the deviation over (so many) seeds."]
    outcomes = [look(cell) for cell in table.cells()]
    if any(outcome.diverged is not None for outcome in outcomes):
        notes.append(f"{FELL} (r): diverged at every rate, at last in round r.")
    if any(outcome.mean is None and outcome.diverged is None for outcome in outcomes):
        notes.append(f"{OPEN}: not run yet.")
    for column in table.columns:
        tuned = [o for o in outcomes if o.cell.column == column and o.rate is not None]
        if tuned:
            told = ", ".join(f"{o.cell.row} {o.rate:g}{'*' * o.on_the_edge}" for o in tuned)
            notes.append(f"Tuned rates, {column}: {told}.")
    if any(outcome.on_the_edge for outcome in outcomes):
        notes.append("*: on the edge of the rates that were tried; a better one may lie beyond.")
    if not known:
        notes.append("The paper's own numbers of this table have not been transcribed (igfl/paper/printed.py).")
    return notes


def as_markdown(layout: Layout) -> str:
    """A table in a page."""
    lines = [f"### {layout.title}", "", *(f"- {line}" for line in layout.above), ""]
    lines += [f"| {' | '.join(words)} |" for words in (layout.header, ["---"] * len(layout.header), *layout.rows)]
    return "\n".join([*lines, "", *layout.below, ""])


def as_csv(layout: Layout) -> str:
    """Header and rows alone."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([layout.header, *layout.rows])
    return out.getvalue()


_LATEX = {"±": r"$\pm$", "–": "--", "·": r"$\cdot$", "%": r"\%", "_": r"\_", ">=": r"$\geq$", "&": r"\&", "#": r"\#"}


def as_latex(layout: Layout) -> str:
    """A table of booktabs."""

    def row(words: Sequence[str]) -> str:
        return " & ".join(_escaped(word) for word in words) + r" \\"

    notes = r" \par ".join(_escaped(line) for line in (*layout.above, *layout.below))
    return "\n".join([
        r"\begin{table}", r"\centering", rf"\caption{{{_escaped(layout.title)}}}",
        rf"\begin{{tabular}}{{l{'r' * (len(layout.header) - 1)}}}", r"\toprule", row(layout.header), r"\midrule",
        *map(row, layout.rows), r"\bottomrule", r"\end{tabular}", rf"\par\footnotesize {notes}", r"\end{table}", "",
    ])  # fmt: skip


def _escaped(text: str) -> str:
    for plain, written in _LATEX.items():
        text = text.replace(plain, written)
    return text


def verdicts_as_markdown(verdicts: Sequence[Verdict], size: Scale) -> str:
    """Every claim, its verdict, and why."""
    lines = [f"### The paper's claims ({size.name} scale)", "", "| claim | verdict | why |", "| --- | --- | --- |"]
    return "\n".join([*lines, *(f"| {v.claim.sentence} | {v.word} | {v.why} |" for v in verdicts), ""])
