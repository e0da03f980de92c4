"""The validation table as files: what is refused, what is chosen, and what becomes of measures that go wrong."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from typer.testing import CliRunner

from ettrick.analysis.page.chapters.validation import format_validation as typed_format_validation
from ettrick.analysis.results.documents import ValidateDocument, ValidationRow
from ettrick.analysis.results.run import plain
from ettrick.analysis.validation.lab import MeasuredQuantity, ScenarioRunner
from ettrick.analysis.validation.measures import MEASURES
from ettrick.analysis.validation.run import HEADS, against, describe, described_row, seed_of, validate
from ettrick.analysis.validation.run import cells_of as typed_cells_of
from ettrick.analysis.validation.table import PublishedRow, RowGroup, ValidationTable, chosen, load_table
from ettrick.analysis.validation.verdict import SKIPPED
from ettrick.cli import app
from tests.cases import cases
from tests.literature import record
from tests.typed import of_plain, present
from tests.unit.test_validation_verdicts import row

if TYPE_CHECKING:
    from ettrick import sim

# What is shown of a validation: text and Markdown of one document, and the recorded run of the reference.

markdown = of_plain(record.markdown, ValidateDocument)

format_validation = of_plain(typed_format_validation, ValidateDocument)

complaints_of = of_plain(against, ValidateDocument)

cells_of = of_plain(typed_cells_of, ValidationRow)

CHEAP = ("oracle-heavy-productive", "oracle-nodes-down-mean", "oracle-wear-out", "oracle-two-causes")

"""Rows with random numbers that are simulated again, in about two seconds."""


def fake(lab: ScenarioRunner, replications: int, *, ours: float = 10.1, error: float = 0.0) -> MeasuredQuantity:
    """Return what a row says that ours is."""
    return MeasuredQuantity(ours, error, replications)


def missing(lab: ScenarioRunner, replications: int) -> MeasuredQuantity:
    """Look for data that are not there."""
    raise FileNotFoundError


@pytest.fixture(scope="module")
def content() -> dict[str, Any]:
    """Return the document of a small table with a row of each kind and of each verdict."""
    kinds: list[tuple[str, dict[str, Any]]] = [
        ("relative", {"size": 0.02, "conventions": {"failures_in_restart": "no", "start": "cold"}}),
        ("absolute", {"size": 0.2, "quantity": "<b>bold</b> | cell", "unit": "h"}),
        ("sampling", {"replications": 16, "independent": True, "arguments": {"error": 1.0}, "most_noise": 1.0}),
        ("at_least", {"arguments": {"ours": 9.0}}),
        ("at_most", {"arguments": {"ours": 9.0}}),
        ("interval", {"low": 1, "high": 20, "value": None}),
        ("must_miss", {"size": 5.0, "arguments": {"ours": 90.0}}),
        ("absolute", {"size": 0.2, "label": "identity", "id": "row-identity"}),
        ("absolute", {"size": 3.6, "id": "row-wide"}),
        ("absolute", {"size": 3.5, "id": "row-not-wide"}),
        ("printed", {"size": 0.5, "measure": "missing", "needs_data": True, "only_reads": True}),
    ]
    rows = tuple(
        row(kind, **({"id": f"row-{kind}".replace("_", "-"), "measure": "fake"} | entry)) for kind, entry in kinds
    )
    table = ValidationTable((RowGroup("group", "A <title>", rows),), load_table().unchecked)
    found = validate(table, ScenarioRunner(), measures={"fake": fake, "missing": missing})
    document: dict[str, Any] = plain(describe(found, command="ettrick validate"))
    return document


def test_the_text_and_the_markdown_show_every_row(content: dict[str, Any]) -> None:
    """Both have each row, the failed one's reason, the skipped one's, and what is not checked."""
    for text in (format_validation(content, width=400), markdown(content)):
        for each in content["groups"][0]["rows"]:
            assert each["id"] in text
        assert content["not_checked"][0]["why"] in text
        assert "8 of 10 rows pass; failed: 1; skipped: 1 (reference data not present)." in text
        assert (
            "Seed 1; probability of a false alarm in the whole table: 0.001; rows with random numbers in them: 1."
            in text
        )
        assert "Identities, which the simulator cannot fail and which count apart: 1." in text
        assert "Rows whose limit is more than 35 % of the value, marked as wide: 3." in text
        assert "Independent rows together (1): pass; p = 0.92" in text
        assert "it passes from 0.0001 on." in text
        assert "Of these rows 1 read only the reference data and check the reading, not the simulator." in text
    assert "row-at-least: beyond its limit" in format_validation(content)
    assert "inputs of each row: --json, ettrick report" in format_validation(content)


def test_every_line_of_a_markdown_table_has_as_many_cells(content: dict[str, Any]) -> None:
    """A bar in a text does not break its table."""
    lengths = {
        len(re.findall(r"(?<!\\)\|", line)) for line in markdown(content).splitlines() if line.startswith("| `row-")
    }
    assert lengths == {3 + len(HEADS)}


def test_cells_say_what_was_compared(content: dict[str, Any]) -> None:
    """Each kind has its sign; a relative tolerance is in percent; conventions are words."""
    rows = {each["id"]: cells_of(each) for each in content["groups"][0]["rows"]}
    assert rows["row-relative"][:7] == ["10", "10.100", "+1 %", "± 2 %", "pass", "sanity", "–"]
    assert rows["row-relative"][7] == "no failures in restarts, cold start"
    assert rows["row-absolute"][:4] == ["10 h", "10.100 h", "+0.1 h", "± 0.2 h"]
    assert rows["row-at-least"][:5] == ["≥ 10", "9", "−1", "≥ 0", "FAIL"]
    assert rows["row-at-most"][:5] == ["≤ 10", "9", "−1", "≤ 0", "pass"]
    assert rows["row-interval"][:4] == ["1 to 20", "10.100", "0", "± 0 (wide)"]
    assert rows["row-must-miss"][2:5] == ["+80", "beyond ± 5", "pass"]
    assert (rows["row-wide"][3], rows["row-not-wide"][3]) == ("± 3.6 (wide)", "± 3.5")
    assert rows["row-printed"][1:5] == ["–", "–", "–", "skipped"]
    assert rows["row-sampling"][6] == "16"


@pytest.fixture(scope="module")
def recorded() -> dict[str, Any]:
    """Return the recorded run."""
    document: dict[str, Any] = json.loads((record.REFERENCE / "validation.json").read_text(encoding="utf-8"))
    return document


def of_rows(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the rows of a document by id, in order."""
    return {each["id"]: each for group in document["groups"] for each in group["rows"]}


def test_the_reference_page_is_what_the_recorded_run_gives(recorded: dict[str, Any]) -> None:
    """The page is written from the recorded run (make validation-page), in which no row fails."""
    assert (record.REFERENCE / "validation.md").read_text(encoding="utf-8") == markdown(recorded)
    assert complaints_of(recorded) == []


def test_the_recorded_run_is_of_this_table(recorded: dict[str, Any]) -> None:
    """Groups, rows, stated values, tolerances and what is not checked are those of the table, in its order."""
    table = load_table()
    assert [(group["name"], group["title"]) for group in recorded["groups"]] == [group[:2] for group in table.groups]
    found = of_rows(recorded)
    assert list(found) == [each.id for each in table.rows]
    for each in table.rows:
        stated = each.model_dump(mode="json", exclude={"group"})
        assert {key: found[each.id][key] for key in stated} == stated
    assert recorded["not_checked"] == [entry.model_dump(mode="json") for entry in table.unchecked]
    assert recorded["stochastic_rows"] == table.stochastic
    assert recorded["seed"] == ScenarioRunner().seed


@pytest.mark.nightly
def test_recorded_formulas_are_todays(recorded: dict[str, Any]) -> None:
    """Rows without random numbers have today's values and verdicts; so have some with, to the digits that are shown.

    A row that needs reference data says nothing where they are missing.
    """
    table = load_table()
    names = [each.id for each in table.rows if not each.is_stochastic] + list(CHEAP)
    found = of_rows(recorded)
    for verdict in validate(table, ScenarioRunner(processes=1), names).verdicts:
        then = found[verdict.row.id]
        if verdict.state == "skipped" or then["verdict"] == "skipped":
            assert verdict.row.needs_data
            continue
        now = plain(described_row(verdict.row, verdict))
        for key, value in now.items():
            assert then[key] == (pytest.approx(value, rel=1e-9, abs=1e-12) if isinstance(value, float) else value), (
                f"{verdict.row.id}: {key}; run `make validation-page`"
            )


@pytest.mark.parametrize("value", [117, 130])
def test_a_run_is_recorded_with_its_page(value: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command writes the data and the page that they give; its status is 1 if a row fails, here on purpose."""
    table = chosen(load_table(), ["daly-optimum-24h"])
    (group,) = table.groups
    changed = group._replace(rows=(group.rows[0].model_copy(update={"value": value}),))
    monkeypatch.setattr(record, "load_table", lambda: table._replace(groups=(changed,)))
    assert record.main(["--out", str(tmp_path)]) == (0 if value == 117 else 1)
    document = json.loads((tmp_path / "validation.json").read_text(encoding="utf-8"))
    assert list(of_rows(document)) == ["daly-optimum-24h"]
    assert (tmp_path / "validation.md").read_text(encoding="utf-8") == markdown(document)


ROW = """\
- id: {id}
  quantity: a number
  paper: nobody
  where: nowhere
  provenance: theory
  inputs: none
  value: 1
  unit: "-"
  tolerance: {{kind: absolute, size: 0.1, why: a test}}
  label: sanity
  measure: {measure}
"""


def one(lab: ScenarioRunner, replications: int) -> MeasuredQuantity:
    """Return what the rows of these tests state."""
    return MeasuredQuantity(1.0)


def two(lab: ScenarioRunner, replications: int) -> MeasuredQuantity:
    """Return something else."""
    return MeasuredQuantity(2.0)


def lost(lab: ScenarioRunner, replications: int) -> MeasuredQuantity:
    """Look for data that are not there."""
    message = "rows.csv"
    raise FileNotFoundError(message)


def broken(lab: ScenarioRunner, replications: int) -> MeasuredQuantity:
    """Go wrong, with an error of two lines."""
    message = "first\nsecond"
    raise ZeroDivisionError(message)


def noisy(lab: ScenarioRunner, replications: int, *, off: float) -> MeasuredQuantity:
    """Return a mean that is off by so many standard errors."""
    return MeasuredQuantity(off, 1.0, replications, 0.0)


FAKES = {"one": one, "two": two, "lost": lost, "broken": broken, "noisy": noisy}


def write(folder: Path, *rows: str, group: str = "first", head: str = "", unchecked: str = "unchecked: []\n") -> None:
    """Write a table of one group."""
    (folder / "tables").mkdir(exist_ok=True)
    text = head or f"group: {group}\ntitle: Some rows\n"
    (folder / "tables" / f"{group}.yaml").write_text(text + "rows:\n" + "".join(rows))
    (folder / "not_checked.yaml").write_text(unchecked)


def named(name: str, measure: str = "one", more: str = "") -> str:
    """Return a row."""
    return ROW.format(id=name, measure=measure) + more


def load(folder: Path) -> ValidationTable:
    """Return the table of a folder with the measures of these tests."""
    return load_table(folder, FAKES)


@cases(
    ("text", "rule"),
    [
        (named("a", "ones"), "first.yaml: row 'a': no measure 'ones'; did you mean 'one'?"),
        (named("a") + named("a"), "first.yaml: row 'a' is in first.yaml already"),
        (named("A b"), "first.yaml: row 'A b': id: "),
        (named("a", more="  labels: sanity\n"), "first.yaml: row 'a': labels: Extra inputs are not permitted"),
        (named("a", more="  group: second\n"), "first.yaml: row 'a': is of the group 'first', not 'second'"),
        (named("a", more="  label: sanity\n"), "first.yaml: key is given twice (first on line 13) (line 15)"),
        (named("a", more="  independent: true\n"), "first.yaml: row 'a': independent belongs to kind: sampling"),
        (named("a", more="  conventions: {start: warm}\n"), "first.yaml: row 'a': conventions.start: "),
        ("- 5\n", "first.yaml: row '0': "),
    ],
)
def test_a_row_that_is_wrong_is_named(text: str, rule: str, tmp_path: Path) -> None:
    """One line says which file, which row and what is wrong with it."""
    write(tmp_path, text)
    with pytest.raises(ValueError, match=re.escape(rule)) as caught:
        load(tmp_path)
    assert "\n" not in str(caught.value)


@cases(
    ("head", "rule"),
    [
        ("group: second\ntitle: x\n", "first.yaml: the group is called like the file, 'first', not 'second'"),
        ("group: first\n", "first.yaml: the key 'title' is missing"),
        ("group: first\ntitle: x\nnotes: y\n", "first.yaml: no key 'notes' (keys: group, title, rows, unchecked)"),
    ],
)
def test_a_file_that_is_wrong_is_named(head: str, rule: str, tmp_path: Path) -> None:
    """The keys of a file are known, and its group is its name."""
    write(tmp_path, named("a"), head=head)
    with pytest.raises(ValueError, match=re.escape(rule)):
        load(tmp_path)


def test_names_are_unique_in_the_whole_table(tmp_path: Path) -> None:
    """Two files cannot have a row of one name."""
    write(tmp_path, named("a"))
    write(tmp_path, named("a"), group="second")
    with pytest.raises(ValueError, match=re.escape("second.yaml: row 'a' is in first.yaml already")):
        load(tmp_path)


def test_what_is_not_checked_has_a_reason(tmp_path: Path) -> None:
    """Entries of the file for all and of the file of a group come together; one without a reason is refused."""
    entry = "unchecked:\n- {paper: x, what: y, why: z}\n"
    write(tmp_path, named("a"), entry, unchecked=entry)
    assert [list(each.model_dump().values()) for each in load(tmp_path).unchecked] == [["x", "y", "z"]] * 2
    write(tmp_path, named("a"), unchecked="unchecked:\n- {paper: x, what: y}\n")
    with pytest.raises(ValueError, match=re.escape("not_checked.yaml: unchecked 0: why: Field required")):
        load(tmp_path)


def test_a_part_of_the_table(tmp_path: Path) -> None:
    """Names of groups and of rows choose; a name of neither is refused with the nearest, or with all groups."""
    entry = "unchecked:\n- {paper: x, what: y, why: z}\n"
    write(tmp_path, named("a"), named("bee"))
    write(tmp_path, named("c"), group="second", unchecked=entry)
    table = load(tmp_path)
    assert [row.id for row in chosen(table, ["second", "bee"]).rows] == ["bee", "c"]
    assert chosen(table) == table
    assert chosen(table, ["a"]).unchecked == (), "what is not checked belongs to the whole"
    with pytest.raises(ValueError, match=re.escape("no group and no row is called 'secnd'; did you mean 'second'?")):
        chosen(table, ["a", "secnd"])
    with pytest.raises(ValueError, match=re.escape("is called 'xyz' (groups: first, second)")):
        chosen(table, ["xyz"])


def test_what_goes_wrong_is_a_row_like_others(tmp_path: Path) -> None:
    """An error is a failure in one line; data that are not there skip a row that needs them, and no other one."""
    write(
        tmp_path,
        named("good"),
        named("bad", "two"),
        named("wrong", "broken"),
        named("missing", "lost", "  needs_data: true\n"),
        named("surprising", "lost"),
        named("unknown", "one", "  arguments: {of: mean}\n"),
    )
    seen: list[tuple[int, int]] = []
    found = validate(load(tmp_path), ScenarioRunner(), progress=lambda *at: seen.append(at), measures=FAKES)
    states = {verdict.row.id: (verdict.state, verdict.reason) for verdict in found.verdicts}
    assert states["good"] == ("pass", "")
    assert states["bad"] == ("fail", "")
    assert states["wrong"] == ("fail", "ZeroDivisionError: first second")
    assert states["missing"] == ("skipped", SKIPPED)
    assert states["surprising"] == ("fail", "FileNotFoundError: rows.csv")
    assert states["unknown"][0] == "fail"
    assert "unexpected keyword argument 'of'" in states["unknown"][1]
    assert seen == [(number, 6) for number in range(1, 7)]
    content = describe(found, command="")
    assert content.counts == {"pass": 1, "fail": 4, "skipped": 1}
    assert against(content) == ["4 of 6 rows failed: bad, wrong, surprising, unknown"]


def test_rows_that_pass_or_are_skipped_are_no_reason(tmp_path: Path) -> None:
    """The answer is yes with skipped rows, which count as such."""
    write(tmp_path, named("good"), named("missing", "lost", "  needs_data: true\n"))
    assert against(describe(validate(load(tmp_path), ScenarioRunner(), measures=FAKES), command="")) == []


SAMPLED = """\
- id: {id}
  quantity: a mean
  paper: nobody
  where: nowhere
  provenance: theory
  inputs: none
  unit: "-"
  tolerance: {{kind: sampling, most_noise: 10, why: a test}}
  label: sanity
  measure: noisy
  arguments: {{off: {off}}}
  replications: 100
  independent: true
"""


def test_a_part_has_the_limits_of_the_whole(tmp_path: Path) -> None:
    """A row alone may be off by as much as among all others: the error rate is that of the table."""
    write(tmp_path, *(SAMPLED.format(id=f"row-{number}", off=0) for number in range(30)))
    table = load(tmp_path)
    whole = validate(table, ScenarioRunner(), measures=FAKES).verdicts[7]
    (alone,) = validate(table, ScenarioRunner(), ["row-7"], measures=FAKES).verdicts
    assert table.stochastic == 30
    assert alone == whole
    assert present(alone.limit) > 4


def test_many_small_deviations_are_a_reason(tmp_path: Path) -> None:
    """Rows that all pass and all are off the same way fail together."""
    write(tmp_path, *(SAMPLED.format(id=f"row-{number}", off=2.2) for number in range(20)))
    content = describe(validate(load(tmp_path), ScenarioRunner(), measures=FAKES), command="")
    assert content.counts["fail"] == 0
    (line,) = against(content)
    assert line.startswith("the 20 independent rows together are too far off for sampling error: p = ")


def test_seeds_as_they_are_typed() -> None:
    """A number below 2**63, as in a scenario, or one that nobody has seen; anything else is refused."""
    assert seed_of("17") == 17
    assert seed_of(str(2**63 - 1)) == 2**63 - 1
    assert len({seed_of("random") for _ in range(5)}) > 1
    for text in ("-1", "1.5", "", "Random", "²", str(2**63), "9" * 5000):
        with pytest.raises(ValueError, match="whole number from 0 to 9223372036854775807, or random") as caught:
            seed_of(text)
        assert len(str(caught.value)) < 120


def test_a_seed_that_is_too_large_is_refused_by_the_command() -> None:
    """One line on standard error and exit status 2, before any row is simulated."""
    done = CliRunner().invoke(app, ["validate", "--only", "daly-optimum-24h", "--seed", str(2**63)])
    assert done.exit_code == 2
    assert done.stdout == ""
    assert "--seed: must be a whole number from 0 to 9223372036854775807" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_every_measure_is_used() -> None:
    """No measure is left without a row."""
    assert {row.measure for row in load_table().rows} == set(MEASURES)


class Idle(ScenarioRunner):
    """A laboratory that prepares scenarios and plays none."""

    def results(self, prepared: sim.Prepared, replications: int) -> Any:
        """Stop here."""
        raise NotImplementedError


def test_rows_that_only_read_are_marked() -> None:
    """The rows of the measure that sees nothing but the fault log are those that are counted apart."""
    rows = load_table().rows
    assert {row.id for row in rows if row.only_reads} == {row.id for row in rows if row.measure == "infinitehbd_trace"}


def test_the_example_of_the_guide_is_a_row() -> None:
    """The entry that the guide shows is a row of the table, to the letter of each of its values."""
    text = (Path(__file__).parents[2] / "docs" / "howto" / "check-ettrick.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"(?ms)^ *```yaml\n(.*?)^ *```$", text)
    (stated,) = yaml.load(block, yaml.BaseLoader)
    known = {row.id: row for row in load_table().rows}[stated["id"]]
    assert (
        PublishedRow.model_validate(
            {"group": known.group, **stated, "arguments": yaml.safe_load(block)[0]["arguments"]}
        )
        == known
    )


@pytest.mark.nightly
def test_independent_rows_have_causes_of_their_own() -> None:
    """The random streams of a cause are known by its name: two independent rows do not have one of the same name."""
    seen: list[str] = []

    def note(prepared: sim.Prepared) -> sim.Prepared:
        seen.extend(source.name for source in prepared.sources)
        return prepared

    table = load_table()
    found: dict[str, str] = {}
    for entry in table.rows:
        if entry.independent:
            seen.clear()
            validate(table, Idle(processes=1, broken=note), [entry.id])
            assert seen, f"{entry.id}: simulates nothing"
            for name in set(seen):
                assert name not in found, f"{entry.id} and {found[name]} share the failures of '{name}'"
                found[name] = entry.id
    assert len(set(found.values())) >= 10
