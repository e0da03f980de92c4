"""Pictures: what they show is there, all that is there is shown, words can be read, and the bytes are the same."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import yaml
from matplotlib.backends.backend_agg import FigureCanvasAgg

import sim
from analysis.page import charts
from analysis.page.charts.cluster import PLAIN, Drawing, Text, draw_parts, draw_tiers, is_small
from sim.cluster import ClusterSpec, Edges, FatTree, Hosts, Topology, edges
from sim.cluster.fabric import DualPlane
from tests.cases import cases

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sim.cluster import FabricKind

POD = {"leaf": {"nodes": 4}, "radix": 16, "rails": 2, "spine": {"leaf_groups": 2}, "core": {"oversubscription": 2}}
SUPERPOD = {"leaf": {"nodes": 32}, "spine": {"leaf_groups": 4}, "core": {"oversubscription": 1}}


def cluster(fabric: FabricKind, nodes: int, **changes: Any) -> ClusterSpec:
    """Return a cluster of 8-GPU hosts with any fabric, whether or not files may name it."""
    fabric.check(Hosts(nodes, 8))
    small = ClusterSpec.model_validate({"nodes": 8, **changes})
    return small.model_copy(update={"nodes": nodes, "fabric": fabric})


class Cables:
    """Builds the cables of a topology that no kind of fabric makes; hosts first, then leaves and spines."""

    def __init__(self, rows: list[tuple[int, int, int, int]]) -> None:
        self.rows = rows

    def __call__(self) -> Edges:
        """Return the cables: lower, upper, tier, rail."""
        lower, upper, tier, rail = np.array(self.rows).T
        return Edges(
            lower.astype(np.int32),
            upper.astype(np.int32),
            tier.astype(np.int8),
            rail.astype(np.int16),
            np.full(lower.size, 50e9),
        )


def rails_apart(hosts: int, rails: int) -> Topology:
    """Return hosts of which each rail has one leaf switch, and nothing above: as many planes as rails."""
    counts = {"gpu": 8 * hosts, "node": hosts, "rack": 1, "pdu": 1, "cooling": 1, "nic": hosts * rails, "leaf": rails}
    counts |= {"spine": 0, "core": 0, "pod": 1, "cable_node_leaf": hosts * rails, "cable_leaf_spine": 0}
    alike: NDArray[np.int32] = np.zeros(hosts, dtype=np.int32)
    domains = {name: alike.copy() for name in ("leaf", "pod", "rack", "pdu", "cooling")}
    return Topology(
        name="rails apart",
        nodes=hosts,
        gpus_per_node=8,
        rails=rails,
        counts={**counts, "cable_spine_core": 0, "transceiver": 2 * hosts * rails},
        domains={**domains, "scale_up": np.arange(hosts, dtype=np.int32)},
        bandwidth={"leaf": 50e9, "pod": 50e9, "cluster": 50e9},
        disjoint_paths=0,
        optical=(0, 1, 2),
        reroute=False,
        make_edges=Cables([(host, hosts + rail, 0, rail) for host in range(hosts) for rail in range(rails)]),
    )


SMALL = {
    "two tiers": cluster(FatTree.model_validate({"rails": 4, "leaf": {"nodes": 4}, "radix": 16}), 16).build(),
    "three tiers": cluster(FatTree.model_validate(POD), 16).build(),
    "partly filled": cluster(FatTree.model_validate(POD), 13, gpus_per_node=4).build(),
    "one leaf for all rails": cluster(FatTree.model_validate({"leaf": {"nodes": 2, "switches": 1}}), 8).build(),
    "two planes": cluster(
        DualPlane.model_validate({"radix": 16, "segment": {"nodes": 8}, "rails": 4}), 16, scale_up={"gpus": 32}
    ).build(),
    "rails apart": rails_apart(8, 4),
    "more rails than hues": rails_apart(8, 12),
    "one host": cluster(FatTree.model_validate({"leaf": {"nodes": 1}}), 1).build(),
    "128 hosts": cluster(FatTree.model_validate({"leaf": {"nodes": 32}}), 128).build(),
}
LARGE = {
    "one pod": cluster(FatTree.model_validate({"leaf": {"nodes": 32}}), 256).build(),
    "three pods": cluster(FatTree.model_validate(SUPERPOD), 384).build(),
    "sixteen pods": cluster(FatTree.model_validate(SUPERPOD), 2048).build(),
    "partly filled": cluster(FatTree.model_validate(SUPERPOD), 2000, scale_up={"gpus": 32}).build(),
    "oversubscribed": cluster(
        FatTree.model_validate({**SUPERPOD, "spine": {"leaf_groups": 4, "oversubscription": 3}}), 1024
    ).build(),
    "two planes": cluster(
        DualPlane.model_validate(
            {
                "radix": 64,
                "segment": {"nodes": 32},
                "rails": 4,
                "spine": {"segments": 8},
                "core": {"oversubscription": 2},
            }
        ),
        2048,
    ).build(),
    "rails apart": rails_apart(600, 8),
}


def drawn(topology: Topology) -> Drawing:
    """Return the drawing that the figure is made of."""
    return draw_parts(topology) if is_small(topology) else draw_tiers(topology)


def words(drawing: Drawing) -> list[str]:
    """Return all that is written, a line an entry."""
    texts = [text.words for text in drawing.texts] + [box.words for box in drawing.boxes]
    return [line for text in texts for line in text.split("\n")]


@cases(("kind", "small"), [(SMALL, True), (LARGE, False)])
def test_small_clusters_are_drawn_in_full(kind: dict[str, Topology], small: bool) -> None:
    """Up to 400 vertices and 3,000 cables every part is drawn; beyond, tiers."""
    assert {is_small(topology) for topology in kind.values()} == {small}


# ----------------------------------------------------------------------------------------------- every part


def box_at(drawing: Drawing, x: float, y: float) -> int:
    """Return the vertex whose box has its edge at a point."""
    found = [
        number
        for number, box in enumerate(drawing.boxes)
        if abs(x - box.x) <= box.width / 2 and abs(abs(y - box.y) - box.height / 2) < 1e-9
    ]
    (number,) = found
    return number


@pytest.mark.parametrize("name", SMALL)
def test_every_part_is_drawn_once_and_nothing_else(name: str) -> None:
    """There is a box for each host and switch, and a line from box to box for each cable."""
    topology = SMALL[name]
    drawing = draw_parts(topology)
    vertices = [vertex for part in ("node", "leaf", "spine", "core") for vertex in topology.vertices(part)]
    assert len(drawing.boxes) == len(vertices)  # in the order of their numbers
    cables = edges(topology)
    seen: Counter[tuple[int, int]] = Counter()
    for line in drawing.lines:
        (x, y), (other, above) = line.ends
        if y != above:  # level lines underline domains
            seen[box_at(drawing, x, y), box_at(drawing, other, above)] += 1
    assert seen == Counter(zip(cables.lower.tolist(), cables.upper.tolist(), strict=True))


@cases("name", SMALL)
def test_cables_do_not_hide_each_other(name: str) -> None:
    """No two cables have an end in common, parallel ones neither."""
    ends = [
        point for line in draw_parts(SMALL[name]).lines for point in line.ends if line.ends[0][1] != line.ends[1][1]
    ]
    assert len(set(ends)) == len(ends)


@cases("name", SMALL)
def test_boxes_lie_apart(name: str) -> None:
    """No box covers another one."""
    boxes = draw_parts(SMALL[name]).boxes
    for number, one in enumerate(boxes):
        for other in boxes[:number]:
            gap_x = abs(one.x - other.x) - (one.width + other.width) / 2
            gap_y = abs(one.y - other.y) - (one.height + other.height) / 2
            assert max(gap_x, gap_y) > 0


@cases("name", ["two tiers", "three tiers", "partly filled"])
def test_rails_have_hues_and_names(name: str) -> None:
    """Cables of a rail, up to the spines, and their leaf switches share a hue, and the box names the rail."""
    topology = SMALL[name]
    drawing = draw_parts(topology)
    first = topology.nodes
    for index in range(topology.counts["leaf"]):
        box = drawing.boxes[first + index]
        assert box.hue == index % topology.rails
        assert box.words == f"{index}\nrail {index % topology.rails}"
    lines = [line for line in drawing.lines if line.ends[0][1] != line.ends[1][1]]
    cables = edges(topology)
    of_leaf = (cables.lower - first) % topology.rails
    wanted = np.select([cables.tier == 0, cables.tier == 1], [cables.rail, of_leaf], PLAIN)
    assert [line.hue for line in lines] == wanted.tolist()


def test_planes_have_hues_and_names() -> None:
    """Switches and cables of a plane share a hue; its name has it too."""
    topology = SMALL["two planes"]
    drawing = draw_parts(topology)
    named = {text.words: text.hue for text in drawing.texts if text.words.startswith("plane")}
    assert named == {"plane 0": 0, "plane 1": 1}
    # The fabric numbers the two leaf switches of a pair one after another, and spines plane by plane.
    leaf, spine = topology.vertices("leaf"), topology.vertices("spine")
    assert [drawing.boxes[vertex].hue for vertex in leaf] == [0, 1] * (len(leaf) // 2)
    assert [drawing.boxes[vertex].hue for vertex in spine] == [0] * (len(spine) // 2) + [1] * (len(spine) // 2)
    hues = Counter(line.hue for line in drawing.lines if line.hue != PLAIN)
    assert hues == {0: edges(topology).lower.size / 2, 1: edges(topology).lower.size / 2}


def test_shared_domains_are_underlined() -> None:
    """What several hosts share is named with its size, each domain numbered, and the same hosts underlined once."""
    drawing = draw_parts(SMALL["two planes"])
    labels = [text.words for text in drawing.texts if text.x < 1 and text.size <= 8]
    assert labels == ["leaf group: 8 hosts", "rack, scale-up domain: 4 hosts", "pdu, cooling: 16 hosts"]
    assert sum(line.ends[0][1] == line.ends[1][1] for line in drawing.lines) == 2 + 4 + 1


# ------------------------------------------------------------------------------------------------- the tiers


@cases("name", LARGE)
def test_totals_are_written(name: str) -> None:
    """Each tier has its number of switches, each tier of cables its number, and pods left out are counted."""
    topology = LARGE[name]
    written = words(draw_tiers(topology))
    for part, noun in (("node", "hosts"), ("leaf", "leaf switches"), ("spine", "spines"), ("core", "core switches")):
        count = topology.counts[part]
        assert (f"{count:,} {noun}" in written) == (count > 0)
    for part, count in topology.counts.items():
        assert not part.startswith("cable") or (f"{count:,} cables" in written) == (count > 0)
    pods = topology.counts["pod"]
    assert (f"{pods - 3:,} more" in written) == (pods > 4)
    assert sum(bool(re.fullmatch(r"pod \d+", line)) for line in written) == (
        0 if pods == 1 else min(pods, 3 if pods > 4 else 4)
    )


@cases("name", ["one pod", "three pods", "rails apart"])
def test_parts_of_the_pods_add_up(name: str) -> None:
    """Where no pod is left out, the numbers in the boxes add up to the totals."""
    topology = LARGE[name]
    boxes = [box.words for box in draw_tiers(topology).boxes]
    for part, noun in (("node", "host"), ("leaf", "leaf switch|leaf|leaves"), ("spine", "spine")):
        found = [re.search(rf"([\d,]+)\s({noun})(?! group)", text) for text in boxes]
        assert sum(int(match[1].replace(",", "")) for match in found if match) == topology.counts[part]


def test_each_pod_has_its_own_parts() -> None:
    """A pod of four scalable units has 128 hosts and 32 switches of each tier; the last one what is left."""
    boxes = Counter(box.words for box in draw_tiers(LARGE["three pods"]).boxes)
    assert boxes["32 leaf switches"] == boxes["32 spines"] == boxes["128 hosts, 1,024 GPUs\nin 4 leaf groups"] == 3
    boxes = Counter(box.words for box in draw_tiers(LARGE["partly filled"]).boxes)
    assert boxes["128 hosts, 1,024 GPUs\nin 4 leaf groups"] == 2
    assert boxes["80 hosts, 640 GPUs\nin 3 leaf groups"] == 1  # 2,000 less 15 pods of 128


def test_bands_are_as_wide_as_their_bandwidth() -> None:
    """The cables of a tier are drawn as narrow as its oversubscription, and that is written."""
    drawing = draw_tiers(LARGE["oversubscribed"])
    widths = [band.corners[1][0] - band.corners[0][0] for band in drawing.bands]
    # Eleven cables up for 32 down: cables are whole.
    ratios = sorted({round(width / max(widths), 6) for width in widths})
    assert ratios[0] == pytest.approx(11 / 32, abs=1e-6)
    assert ratios[-1] == 1.0
    assert f"oversubscription {32 / 11:.3g} : 1" in words(drawing)


def test_published_oversubscription_is_written() -> None:
    """The cluster that trained Llama 3 is 1:7 between pods; with whole cables 384 down need 55 up."""
    fabric = {"leaf": {"nodes": 2, "switches": 1}, "core": {"oversubscription": 7, "radix": 576}}
    fabric["spine"] = {"leaf_groups": 192, "radix": 576}
    drawing = draw_tiers(cluster(FatTree.model_validate(fabric), 3072).build())
    assert f"oversubscription {384 / 55:.3g} : 1" in words(drawing)
    assert "384 hosts, 3,072 GPUs" in words(drawing)


def test_many_planes_are_not_drawn_apart() -> None:
    """Eight planes are one box per tier, and a note says how many they are."""
    drawing = draw_tiers(LARGE["rails apart"])
    assert any(line.startswith("8 planes") for line in words(drawing))
    assert not any(line.startswith("plane ") for line in words(drawing))


# ---------------------------------------------------------------------------------------------- the figure


@pytest.mark.parametrize(
    "topology", [*SMALL.values(), *LARGE.values()], ids=[*SMALL, *(f"large, {name}" for name in LARGE)]
)
def test_words_can_be_read(topology: Topology) -> None:
    """All words lie within the picture, those of a box within the box, and no words lie on others."""
    figure = charts.draw(topology)
    with charts.style():
        renderer = FigureCanvasAgg(figure).get_renderer()
        found = [(text, text.get_window_extent(renderer)) for text in figure.axes[0].texts]
    dots = figure.dpi
    boxes = {(round(box.x, 6), round(box.y, 6), box.words): box for box in drawn(topology).boxes}
    for text, extent in found:
        assert extent.x0 >= 0
        assert extent.y0 >= 0
        assert extent.x1 <= figure.bbox.x1, text.get_text()
        assert extent.y1 <= figure.bbox.y1
        x, y = text.get_position()
        box = boxes.get((round(x, 6), round(y, 6), text.get_text()))
        assert box is None or (extent.width <= box.width * dots and extent.height <= box.height * dots)
    for number, (text, one) in enumerate(found):
        for other_text, other in found[:number]:
            assert not one.overlaps(other), (text.get_text(), other_text.get_text())


@pytest.mark.parametrize("suffix", charts.SUFFIXES)
def test_the_same_picture_is_the_same_bytes(suffix: str) -> None:
    """Two figures of the same cluster are the same file, without a date."""
    first, second = (charts.render(charts.draw(SMALL["two tiers"]), suffix) for _ in range(2))
    assert first == second
    assert first != charts.render(charts.draw(SMALL["three tiers"]), suffix)
    assert not re.search(rb"dc:date|CreationDate|20\d\d-\d\d-\d\d", first)


@pytest.mark.parametrize("name", ["mine", "superpod"])
def test_pictures_of_the_page_are_current(name: str) -> None:
    """The pictures of the how-to say what they would say if they were drawn now."""
    folder = Path(sim.__file__).parents[1] / "docs" / "howto"
    if name == "mine":
        page = (folder / "describe-your-cluster.md").read_text(encoding="utf-8")
        described = re.search(r":caption: mine.yaml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
        assert described is not None
        spec = ClusterSpec.model_validate(yaml.safe_load(described[1]))
    else:
        spec = sim.load_cluster(sim.find_cluster("dgx-b200-superpod-64su"))
    now = charts.render(charts.draw(spec.build()), ".svg").decode()
    written = (folder / "images" / f"{name}.svg").read_text(encoding="utf-8")
    assert re.findall(">([^<>]+)</text>", written) == re.findall(">([^<>]+)</text>", now) != []
    assert written.count("<path") == now.count("<path")


def test_style_is_left_behind() -> None:
    """Settings of the pictures are not those of who draws them."""
    import matplotlib as mpl

    before = dict(mpl.rcParams)
    charts.render(charts.draw(SMALL["one host"]), ".png")
    assert dict(mpl.rcParams) == before


@pytest.mark.parametrize("name", ["$x_$", "集群", "<&>", "a long name " * 30, "two\nlines"])
def test_any_name_is_written_as_it_is(name: str) -> None:
    """A name is no formula and no markup, and ends where the picture does."""
    figure = charts.draw(cluster(FatTree.model_validate(POD), 16, name=name).build())
    for suffix in charts.SUFFIXES:
        assert charts.render(figure, suffix)
    title = figure.axes[0].texts[[text.get_fontsize() for text in figure.axes[0].texts].index(14)]
    with charts.style():
        assert title.get_window_extent(FigureCanvasAgg(figure).get_renderer()).x1 <= figure.bbox.x1
    assert title.get_text().removesuffix("…") in " ".join(name.split())


def test_title_names_the_cluster() -> None:
    """Name, GPUs, hosts and rails stand at the top."""
    titles = [text for text in draw_parts(SMALL["two planes"]).texts if isinstance(text, Text) and text.size > 9]
    assert [text.words for text in titles] == ["cluster", "128 GPUs in 16 hosts with 4 rails of 400 Gb/s"]
