"""From YAML to a cluster alone: a topology file, or the cluster of a scenario."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, ValidationError

from sim import complaints, documents
from sim.load import ScenarioError, building_blocks, choices_first, completed, load, locate, locate_files
from sim.topology import ClusterSpec
from sim.topology.cluster import NODES_OR_POOLS

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from sim.documents import Document

__all__ = ["find_cluster", "load_cluster"]

_KEY = "cluster"


class _Holder(BaseModel):
    """A scenario of which only the cluster counts."""

    model_config = ConfigDict(extra="ignore")
    cluster: ClusterSpec


def find_cluster(name: str) -> Path:
    """Return the file of a cluster: a path, or the name of a topology or scenario that comes with the program.

    Raises
    ------
    ScenarioError
        If there is no such file.
    """
    return locate(name, building_blocks(), "topology or scenario")


def load_cluster(path: str | Path, overrides: Iterable[str] = ()) -> ClusterSpec:
    """Return the cluster of a topology file, or of a scenario, which is a file with a key ``cluster``.

    Parameters
    ----------
    path
        The file, or the name of one that comes with the program.
    overrides
        Texts ``fabric.radix=128`` that replace values, in order; they may begin with ``cluster.`` as in a scenario.

    Raises
    ------
    ScenarioError
        With one line for each mistake: file, line, column, path, rule.
    """
    found_at = find_cluster(str(path))
    try:
        document = documents.extend(found_at, shorthand=(_KEY,), known=building_blocks)
        texts = choices_first(overrides)
        for text in texts:
            document = _assigned(document, text)
    except documents.DocumentError as error:
        raise ScenarioError([str(error)]) from None
    is_scenario = _KEY in document.data
    model: type[BaseModel] = _Holder if is_scenario else ClusterSpec
    above = (_KEY,) if is_scenario else ()
    data = completed(model, document, {documents.dotted((*above, "fabric")): "fat-tree"})
    locate_files(data, document, found_at.parent, ((*above, "fabric"),))
    try:
        found: Any = model.model_validate(data)
    except ValidationError as error:
        raise ScenarioError(complaints.complaints(model, document, data, error)) from None
    cluster: Any = found.cluster if is_scenario else found
    if cluster.nodes is None and not cluster.pools:
        if not is_scenario:
            raise ScenarioError([complaints.line(document, (), NODES_OR_POOLS)])
        # As many as its jobs and spares need.
        cluster = load(found_at, [text if _is_whole(text) else f"{_KEY}.{_bare(text)}" for text in texts]).cluster
    assert isinstance(cluster, ClusterSpec)
    return cluster


def _is_whole(text: str) -> bool:
    """Return whether a text ``a.b=c`` replaces the whole cluster."""
    return text.partition("=")[0].strip() == _KEY


def _bare(text: str) -> str:
    """Return a text ``a.b=c`` with a path that counts from the cluster."""
    return text.strip().removeprefix(f"{_KEY}.")


def _assigned(document: Document, text: str) -> Document:
    """Return a copy of `document` with a value of the cluster set; a path counts from the cluster or from above it."""
    bare = _bare(text)
    meant = f"{_KEY}.{bare}" if _KEY in document.data and not _is_whole(text) else bare
    try:
        assigned = documents.assign(document, meant, shorthand=(_KEY,), known=building_blocks)
    except documents.DocumentError as error:
        mark = error.mark._replace(text=text) if error.mark.text == meant else error.mark
        raise documents.DocumentError(mark, error.path, error.rule) from None
    for marks in (assigned.keys, assigned.values):
        # The mistake is shown beside what was typed.
        marks.update({path: mark._replace(text=text) for path, mark in marks.items() if mark.text == meant})
    return assigned
