"""The kinds of fabric by name; adding one is a file and a line here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeAlias, Union

from sim.fields import OneOf
from sim.topology.dual_plane import DualPlane
from sim.topology.fat_tree import FatTree
from sim.topology.graph_file import GraphFile

__all__ = ["FABRICS", "AnyFabric"]

FABRICS: dict[str, type[FabricKind]] = {
    "fat-tree": FatTree,
    "dual-plane": DualPlane,
    "graph-file": GraphFile,
}

if TYPE_CHECKING:
    from sim.topology.fabric import FabricKind

    AnyFabric: TypeAlias = FabricKind
else:
    AnyFabric = Annotated[Union[tuple(FABRICS.values())], OneOf("use")]  # noqa: UP007
