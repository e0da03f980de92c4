"""The words of the field: product, YAML and documentation say what a reader of the papers searches for."""

from __future__ import annotations

import ast
import pydoc
import re
from collections import Counter
from functools import cache
from itertools import pairwise
from pathlib import Path

from ettrick.analysis.page.glossary import terms
from tests.cases import cases
from tests.test_hygiene import ROOT, tracked

# What is refused, as a regular expression of whole words, and the standard word.
WORDS = {
    r"(un)?luck(y|ily)?": "run-to-run variability, sampling error, noise",
    r"play(s|ed|ing)?": "run, simulate; cached where nothing ran",
    r"told|tell apart": "reported, stated, printed; distinguish",
    r"tried": "evaluated, attempted, retried",
    r"gained": "gain, difference",
    r"(come|comes|coming|came) back": "return to service (a node), recover (a job)",
    r"ways? (to come )?back": "recovery strategy, rung",
    r"cop(y|ies) of (a|the|its|every) (state|step)|copies in (the )?memory": "checkpoint, replica",
    r"of twenty": "95 % confidence interval",
    r"rarer": "MTBF n times higher",
    r"first to (know|notice)": "first detector, detection latency",
    r"(a|no|the) human|human is called": "operator, operator escalation",
    r"nobody (knows|knew|notices|noticed|has noticed)": "unknown, undetected",
    r"for sure": "always, with certainty",
    r"[0-9]+[.][0-9]+ points": "percentage points",
    r"sd of": "std. dev. of",
    r"pipeline hand-over|hand-over between stages": "P2P send/receive",
    r"crews? of workers|worker crews?": "worker pool",
}

# A line may end between two words, and the next one of a comment begins with its sign.
ANY_WORD = re.compile(rf"\b(?:{'|'.join(WORDS)})\b".replace(" ", r"\s+(?:#\s*)?"), re.IGNORECASE)

# Tics of a translated English, and how often they may occur: in texts for readers, and in docstrings. Only lower these.
TICS = {
    r"beside": (3, 4),
    r"alone": (3, 154),
    r"anew": (0, 3),
    r"in place of": (0, 0),
    r"at hand": (0, 1),
    r"has the(?! (?:same|high|low|most|least|larg|small|long|short|best))": (20, 55),
    r"in vain|seldom|alike|whom": (0, 65),
    r"of no use|nothing of": (2, 36),
    r"(?-i:(?<![\w,;:] )(?:What|Who|Whoever|Whom|Those) (?=[^?.]*[.]))": (23, 285),
    r"(?:return|yield|let) (?:what|who|whom|whoever|those)": (0, 581),
}

# Words of the glossary's last column that are true where they stand: the place, and the term.
TRUE_THERE = {
    ("analysis/page/glossary.yaml", "checkpoint"),  # the definition
    ("analysis/optimize/optimize.py", "too close to call"),
}

# Modules that cannot be guessed or grepped.
MODULES = re.compile("told|tried|gained|playing|keeping|openings|material|noticing|standing|commented|legible|paint")

# Classes had these names, which say nothing away from their file or are of several things.
CLASSES = re.compile(
    "Again|AsGood|Asked|Batch|Begun|Behind|Bench|Blast|Box|Call|Change|Claims|Clock|Controlled|"
    "Counts|Course|Death|Drawing|Drawn|Entry|Event|Failing|Failure|Fitted|Fleet|Focus|Form|Found|"
    "Front|Gang|Gathering|Group|Hidden|Hider|Hit|Input|Jobs|Join|Kept|Kind|Knob|Lab|Lane|Latest|"
    "Layout|LeftOutError|Level|Life|Line|Lives|Log|Members|MoreThan|Nothing|Numbers|Observer|OfJob|"
    "OfJobs|Often|Order|Ordered|Outcome|Parts|Patient|Pending|Phase|Picture|Place|Places|Plan|Pool|"
    "Pools|Product|Published|Rates|Readers|Reading|Recorded|Reserve|Residue|Return|Row|Rows|Scale|"
    "Score|Share|Shared|Shelf|Shown|Simulated|Site|Size|Source|Span|Spells|Stage|Stay|Step|Steps|"
    "Stop|Store|Stores|Struck|Swings|Taken|Tally|Tempo|Times|Together|Trouble|Understood|Units|"
    "Upkeep|Value|Visit|Wait|Warned|Where|Wishes|Workplace"
)

# A docstring that opens so cannot be read alone.
OPENINGS = re.compile("(What|How|One|Which|Who|Where|Why|Of|Its|It|With|When|That|Those)\\b")

FILLERS = frozenset("a an and are as at by for from in is it of on or return that the thi to with yield".split())  # noqa: SIM905

# Tables of former words, which are still read.
FORMER = ("analysis/results/documents.py", "analysis/study/load.py")


def breaches(text: str) -> list[tuple[int, str, str]]:
    """Return the line, the words and the standard word of each breach; identifiers are read as words."""
    spaced = re.sub(r"_|(?<=[a-z])(?=[A-Z])", " ", text)
    return [
        (spaced.count("\n", 0, match.start()) + 1, words, standard)
        for match in ANY_WORD.finditer(spaced)
        for words in [" ".join(match[0].split())]
        for pattern, standard in WORDS.items()
        if re.fullmatch(pattern, words.replace(" # ", " "), re.IGNORECASE)
    ]


@cache
def texts() -> dict[str, str]:
    """Return the product, YAML files and documentation, but for its transcripts: those show what commands print."""
    result = {}
    for path in tracked():
        name = path.relative_to(ROOT).as_posix()
        folders = ("sim/", "analysis/", "cli.py", "scenarios/", "topologies/", "docs/")
        if path.suffix == ".md":
            if name.startswith("docs/") or name in ("README.md", "CONTRIBUTING.md"):
                result[name] = re.sub(
                    r"(?ms)^```(console|text)\n.*?^```$",
                    lambda block: "\n" * block[0].count("\n"),
                    path.read_text(encoding="utf-8"),
                )
        elif name == "Makefile" or (
            name.startswith(folders) and path.suffix in (".py", ".yaml", ".js", ".html", ".css")
        ):
            result[name] = path.read_text(encoding="utf-8")
    return result


@cache
def prose() -> tuple[tuple[str, str, bool], ...]:
    """Return sentences and the file of each, and whether they are a docstring, which only developers read."""
    result = []
    for name, text in texts().items():
        if name.endswith(".md"):
            blocks = re.sub(r"(?ms)^```.*?^```$", "", text)
            result.append((name, re.sub(r"`[^`\n]*`|\[[^\]]*\]\([^)\s]*\)|^#.*", "§", blocks, flags=re.M), False))
        elif not name.endswith(".py"):
            result.append(
                (
                    name,
                    re.sub(r'(?:class|id)="[^"]*"|[.#][\w-]+ \{|^  (?:pattern|replaces): .*$', "", text, flags=re.M),
                    False,
                )
            )
        else:
            for node in ast.walk(ast.parse(text)):
                match node:
                    case ast.Expr(ast.Constant(str(docstring))):
                        result.append((name, docstring, True))
            result += [(name, string, False) for string in _strings(ast.parse(text))]
    return tuple(result)


def _strings(tree: ast.AST) -> list[str]:
    """Return the strings of more than one word that are not docstrings."""
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value
        if id(node) not in docstrings
    ]


@cases("tic", list(TICS))
def test_tics_only_become_fewer(tic: str) -> None:
    """No text has more of a tic than is counted here; who mends some lowers the number."""
    pattern = re.compile(rf"(?<![\w-])(?:{tic})(?![\w-])" if not tic.startswith("(?-i") else tic, re.IGNORECASE)
    found = Counter((is_docstring, name) for name, text, is_docstring in prose() for _ in pattern.findall(text))
    counts = tuple(sum(number for (kind, _), number in found.items() if kind is both) for both in (False, True))
    assert all(count <= most for count, most in zip(counts, TICS[tic], strict=True)), f"{tic}: {counts}\n{found}"


def test_each_concept_has_one_term() -> None:
    """No text for readers has a word that a term of the glossary replaces."""
    replaced = {words: term.name for term in terms() for words in term.replaces}
    pattern = re.compile(rf"\b({'|'.join(replaced)})(?:s|es)?\b".replace(" ", r"\s+"), re.IGNORECASE)
    found = [
        f"{name}: {words!r}: say {term}"
        for name, text, is_docstring in prose()
        if not is_docstring
        for words in pattern.findall(text)
        for term in [replaced.get(" ".join(words.split()).lower(), replaced.get(" ".join(words.split()), ""))]
        if (name, term) not in TRUE_THERE and name != "docs/reference/glossary.md"
    ]
    assert not found, "\n" + "\n".join(found)


def test_words_are_those_of_the_field() -> None:
    """No file has a refused word in a name, a string, a comment or a sentence."""
    found = [
        f"{name}:{line}: {words!r}: say {standard}"
        for name, text in texts().items()
        if name not in FORMER
        for line, words, standard in breaches(text)
    ]
    assert not found, "\n" + "\n".join(found)


def test_modules_have_names_that_can_be_guessed() -> None:
    """No module of the product has a name of the list."""
    assert [name for name in texts() if Path(name).suffix == ".py" and MODULES.fullmatch(Path(name).stem)] == []


def test_references_of_docstrings_resolve() -> None:
    """What a docstring names with its whole path is there."""
    names = re.findall(r":(?:class|meth|func|mod):`~?(ettrick[\w.]+)`", "\n".join(texts().values()))
    assert [name for name in names if pydoc.locate(name) is None] == []


def test_docstrings_can_be_read_alone() -> None:
    """No docstring of the product opens with a pronoun or an adverb, or only repeats the name of what it describes."""
    breaches = []
    for name, text in texts().items():
        if not name.endswith(".py") or name.startswith(("docs/", "examples/")):
            continue
        nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(getattr(node, "body", None), list)]
        for node, before, statement in ((top, *pair) for top in nodes for pair in pairwise([top, *top.body])):
            match statement:
                case ast.Expr(ast.Constant(str(docstring))) if docstring.strip():
                    title = getattr(node, "name", "") if before is node else ""
                    if OPENINGS.match(docstring.strip()) or _repeats(docstring, title):
                        breaches.append(f"{name}:{statement.lineno}: {docstring.strip().splitlines()[0]}")
    assert not breaches, "\n" + "\n".join(breaches)


def _repeats(docstring: str, title: str) -> bool:
    """Return whether a docstring of one line has no word but those of a name."""
    words = {word.removesuffix("s") for word in re.findall("[a-z]+", docstring.lower())} - FILLERS
    parts = re.findall("[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", title).lower())
    return bool(title) and "\n" not in docstring.strip() and words <= {part.removesuffix("s") for part in parts}


def test_classes_have_names_that_can_be_searched_for() -> None:
    """No class has a name of the list or ends in a participle."""
    files = {name: text for name, text in texts().items() if name.endswith(".py") and not name.startswith("docs/")}
    titles = [title for text in files.values() for title in re.findall(r"^\s*class (\w+)", text, re.MULTILINE)]
    assert [title for title in titles if CLASSES.fullmatch(title) or title.endswith("Found")] == []


@cases(
    "text",
    [
        "luck",
        "def _told(x):",
        "class LuckPart:",
        "the node came\n    # back",
        "0.3 points",
        "`most_luck`",
        "A human is called",
    ],
)
def test_refused(text: str) -> None:
    """Words are found in identifiers, over the end of a line, and in any case."""
    assert breaches(text)


@cases(
    "text",
    ["replay a log", "display", "a point of a study", "21 points of a study", "copies of a file", "humans", "retried"],
)
def test_allowed(text: str) -> None:
    """Words that only look like refused ones are not found."""
    assert not breaches(text)
