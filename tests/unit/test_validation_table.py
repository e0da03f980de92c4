"""The validation table as files: what is refused, what is chosen, and what becomes of measures that go wrong."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from typer.testing import CliRunner

from analysis.validation.lab import Estimate, Lab
from analysis.validation.measures import MEASURES
from analysis.validation.play import against, describe, play, seed_of
from analysis.validation.table import Row, Table, chosen, load_table
from analysis.validation.verdict import SKIPPED
from cli import app
from tests.cases import cases

if TYPE_CHECKING:
    import sim

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


def one(lab: Lab, replications: int) -> Estimate:
    """Return what the rows of these tests state."""
    return Estimate(1.0)


def two(lab: Lab, replications: int) -> Estimate:
    """Return something else."""
    return Estimate(2.0)


def lost(lab: Lab, replications: int) -> Estimate:
    """Look for data that are not there."""
    message = "rows.csv"
    raise FileNotFoundError(message)


def broken(lab: Lab, replications: int) -> Estimate:
    """Go wrong, with an error of two lines."""
    message = "first\nsecond"
    raise ZeroDivisionError(message)


def luck(lab: Lab, replications: int, *, off: float) -> Estimate:
    """Return a mean that is off by so many standard errors."""
    return Estimate(off, 1.0, replications, 0.0)


FAKES = {"one": one, "two": two, "lost": lost, "broken": broken, "luck": luck}


def write(folder: Path, *rows: str, group: str = "first", head: str = "", unchecked: str = "unchecked: []\n") -> None:
    """Write a table of one group."""
    (folder / "tables").mkdir(exist_ok=True)
    text = head or f"group: {group}\ntitle: Some rows\n"
    (folder / "tables" / f"{group}.yaml").write_text(text + "rows:\n" + "".join(rows))
    (folder / "not_checked.yaml").write_text(unchecked)


def named(name: str, measure: str = "one", more: str = "") -> str:
    """Return a row."""
    return ROW.format(id=name, measure=measure) + more


def load(folder: Path) -> Table:
    """Return the table of a folder with the measures of these tests."""
    return load_table(folder, FAKES)


# ------------------------------------------------------------------------------------------------- files


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


# ------------------------------------------------------------------------------------------------- what is played


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
    found = play(load(tmp_path), Lab(), progress=lambda *at: seen.append(at), measures=FAKES)
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
    assert against(describe(play(load(tmp_path), Lab(), measures=FAKES), command="")) == []


SAMPLED = """\
- id: {id}
  quantity: a mean
  paper: nobody
  where: nowhere
  provenance: theory
  inputs: none
  unit: "-"
  tolerance: {{kind: sampling, most_luck: 10, why: a test}}
  label: sanity
  measure: luck
  arguments: {{off: {off}}}
  replications: 100
  independent: true
"""


def test_a_part_has_the_limits_of_the_whole(tmp_path: Path) -> None:
    """A row alone may be off by as much as among all others: the error rate is that of the table."""
    write(tmp_path, *(SAMPLED.format(id=f"row-{number}", off=0) for number in range(30)))
    table = load(tmp_path)
    whole = play(table, Lab(), measures=FAKES).verdicts[7]
    (alone,) = play(table, Lab(), ["row-7"], measures=FAKES).verdicts
    assert table.stochastic == 30
    assert alone == whole
    assert alone.limit is not None
    assert alone.limit > 4


def test_many_small_deviations_are_a_reason(tmp_path: Path) -> None:
    """Rows that all pass and all are off the same way fail together."""
    write(tmp_path, *(SAMPLED.format(id=f"row-{number}", off=2.2) for number in range(20)))
    content = describe(play(load(tmp_path), Lab(), measures=FAKES), command="")
    assert content.counts["fail"] == 0
    (line,) = against(content)
    assert line.startswith("the 20 independent rows together are too far off for luck: p = ")


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
    """One line on standard error and exit status 2, before any row is played."""
    done = CliRunner().invoke(app, ["validate", "--only", "daly-optimum-24h", "--seed", str(2**63)])
    assert done.exit_code == 2
    assert done.stdout == ""
    assert "--seed: must be a whole number from 0 to 9223372036854775807" in done.stderr
    assert len(done.stderr.splitlines()) == 1


# ------------------------------------------------------------------------------------------------- the real table


def test_every_measure_is_used() -> None:
    """No measure is left without a row."""
    assert {row.measure for row in load_table().rows} == set(MEASURES)


class Idle(Lab):
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
        Row.model_validate({"group": known.group, **stated, "arguments": yaml.safe_load(block)[0]["arguments"]})
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
    for row in table.rows:
        if row.independent:
            seen.clear()
            play(table, Idle(processes=1, broken=note), [row.id])
            assert seen, f"{row.id}: simulates nothing"
            for name in set(seen):
                assert name not in found, f"{row.id} and {found[name]} share the luck of '{name}'"
                found[name] = row.id
    assert len(set(found.values())) >= 10
