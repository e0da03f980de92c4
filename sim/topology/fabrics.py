"""The kinds of fabric by name; adding one is a file and a line here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeAlias

from pydantic import Field

from sim.topology.dual_plane import DualPlane
from sim.topology.fat_tree import FatTree
from sim.topology.graph_file import GraphFile

if TYPE_CHECKING:
    from sim.topology.fabric import FabricKind

__all__ = ["FABRICS", "AnyFabric"]

AnyFabric: TypeAlias = Annotated[FatTree | DualPlane | GraphFile, Field(discriminator="use")]

FABRICS: dict[str, type[FabricKind]] = {
    "fat-tree": FatTree,
    "dual-plane": DualPlane,
    "graph-file": GraphFile,
}
