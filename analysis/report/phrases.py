"""Where a combination is among the axes of a study, in words: ``48 hot spares, median repair of 44 h``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from analysis.answers.words import capital

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["in_words", "label_text", "phrase", "phrases"]

_LONG = re.compile(r"(?<![\w.,-])\d{4,}(?![\w.,])")
_WHOLE = re.compile(r"\d[\d,]*")
_WORDS = {"M": "million", "G": "billion", "T": "trillion"}
_HEAD = re.compile(r" (?:of|per|for|in|and|with) ")

_PLAINLY = (
    (re.compile(r"for sure \(95 % for all together\)"), "with 95 % confidence for all together"),
    (re.compile(r"\bFor sure\b"), "With 95 % confidence"),
    (re.compile(r"\bfor sure\b"), "with 95 % confidence"),
    *((re.compile(rf"(?<=\d) {short}(?![\w])"), f" {word}") for short, word in _WORDS.items()),
)
"""What answers say in short, and as it is read."""


def label_text(label: str) -> str:
    """Return the label of a value as it is read: large whole numbers have separators."""
    return _LONG.sub(lambda match: f"{int(match[0]):,}", label)


def phrase(title: str, label: str, labels: Iterable[str]) -> str:
    """Return a value of an axis in words: ``48 hot spares``, ``median repair of 44 h``, ``recovery “torchft-hsdp”``.

    Parameters
    ----------
    title
        What the axis is called.
    label
        The value.
    labels
        All values of the axis: something is counted where all are whole numbers and the title stands in the plural.
    """
    told = label_text(label)
    if not label[:1].isdigit():
        return f"{title} “{told}”"
    is_plural = re.search(r"[^s]s$", _HEAD.split(title)[0]) is not None
    return f"{told} {title}" if is_plural and all(map(_WHOLE.fullmatch, (label, *labels))) else f"{title} of {told}"


def phrases(values: Mapping[str, str], names: Iterable[str], content: Mapping[str, Any]) -> str:
    """Return values of some axes of a study in words.

    Parameters
    ----------
    values
        Label of each axis.
    names
        The axes that are told, in order.
    content
        The document of the study.
    """
    axes = content["axes"]
    return ", ".join(
        phrase(str(axes[name]["title"]), values[name], [each["label"] for each in axes[name].get("values", ())])
        for name in names
    )


def in_words(sentence: str, content: Mapping[str, Any]) -> str:
    """Return a sentence of an answer with its values in words: ``hot spares = 48`` is ``48 hot spares``."""
    for entry in content["axes"].values():
        title, labels = str(entry["title"]), [value["label"] for value in entry["values"]]
        texts = "|".join(map(re.escape, sorted(labels, key=len, reverse=True)))

        def told(match: re.Match[str], title: str = title, labels: list[str] = labels) -> str:
            text = phrase(title, match[2], labels)
            return capital(text) if match[1] != title else text

        # A place between two values is a number that is no label.
        pattern = rf"(?<!\w)({re.escape(title)}|{re.escape(capital(title))}) = ({texts}|[\d.,]*\d)(?![\w.]*\w)"
        sentence = re.sub(pattern, told, sentence)
    for short, told_as in _PLAINLY:
        sentence = short.sub(told_as, sentence)
    return label_text(sentence)
