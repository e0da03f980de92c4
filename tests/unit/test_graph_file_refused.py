"""What is no graph, and what is no tiered network, is refused in one line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from sim.cluster.topology import Hosts
from sim.scenario.fields import RuleError
from tests.cases import cases
from tests.graph_documents import (
    Document,
    add,
    document,
    drop,
    edge,
    imported,
    join,
    put,
    together,
    two_tiers,
    vertex,
    written,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


HUGE = "".join(f'<!ENTITY e{level} "{f"&e{level - 1};" * 10}">' for level in range(1, 12))
BOMB = f'<?xml version="1.0"?><!DOCTYPE graphml [<!ENTITY e0 "lol">{HUGE}]><graphml>&e11;</graphml>'
ENTITY = '<!DOCTYPE graphml [<!ENTITY x SYSTEM "secret.txt">]><graphml>&x;</graphml>'
XMLNS = 'xmlns="http://graphml.graphdrawing.org/xmlns"'


@cases(
    ("name", "content", "reason"),
    [
        ("graph.gexf", "", "the name must end in .graphml, .xml or .json"),
        ("graph.json", "{", "is not JSON: Expecting property name"),
        ("graph.json", "[" * 100_000, "is not JSON"),
        ("graph.json", b"\xff\xfe\xfa", "is not JSON"),
        ("graph.json", "[]", "a list of 'nodes' and a list of 'edges'"),
        ("graph.json", '{"nodes": []}', "a list of 'nodes' and a list of 'edges'"),
        ("graph.json", '{"nodes": [7], "edges": []}', "nodes[0] must be a mapping"),
        ("graph.json", '{"nodes": [{"id": true}], "edges": []}', "nodes[0] must be a mapping"),
        ("graph.json", '{"nodes": [], "links": [{"source": 1}]}', "links[0] must be a mapping"),
        ("graph.json", '{"nodes": [{"id": 1}, {"id": 1}], "edges": []}', "vertex 1 is described twice"),
        ("graph.json", '{"nodes": [], "edges": []}', "has no host"),
        ("graph.graphml", "nonsense", "is not XML: syntax error: line 1"),
        ("graph.graphml", "", "is not XML: no element found"),
        ("graph.graphml", '<?xml version="1.0" encoding="klingon"?><graphml/>', "is not XML: unknown encoding"),
        ("graph.xml", "<svg/>", "is not GraphML: its first element is <svg>"),
        ("graph.graphml", f"<graphml {XMLNS}/>", "is GraphML without a graph"),
        ("graph.graphml", f"<graphml {XMLNS}><graph/><graph/></graphml>", "has several graphs"),
        ("graph.graphml", f"<graphml {XMLNS}><graph><hyperedge/></graph></graphml>", "has a hyperedge"),
        ("graph.graphml", f"<graphml {XMLNS}><graph><node/></graph></graphml>", "node number 0 has no id"),
        ("graph.graphml", f"<graphml {XMLNS}><graph><edge/></graph></graphml>", "edge number 0 needs a source"),
        (
            "graph.graphml",
            f'<graphml {XMLNS}><graph><node id="a"><data key="k">1</data></node></graph></graphml>',
            "vertex 'a': data with the key 'k', which is not declared",
        ),
        (
            "graph.graphml",
            f'<graphml {XMLNS}><graph edgedefault="undirected"><node id="a"/><node id="b"/>'
            '<edge source="a" target="b" directed="true"/></graph></graphml>',
            "edge 'a' - 'b': a file must not mix directed and undirected edges",
        ),
        (
            "graph.graphml",
            f'<graphml {XMLNS}><key id="k" attr.name="index" attr.type="int"/><graph><node id="a">'
            '<data key="k">x</data></node></graph></graphml>',
            "vertex 'a': index = 'x' is not of type int",
        ),
        ("graph.graphml", BOMB, "has a document type"),
        ("graph.graphml", BOMB.encode("utf-16"), "has a document type"),
        ("graph.xml", ENTITY, "has a document type"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "bytes",
)
def test_what_is_no_graph_is_refused(tmp_path: Path, name: str, content: str | bytes, reason: str) -> None:
    """The message names the file and what is wrong with it, on one line; entities are never expanded."""
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(RuleError) as caught:
        imported(path).check(Hosts(1, 1))
    assert str(caught.value).startswith(f"{path}: ")
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.at == ("file",)


@cases("name", ["missing.json", "folder.json", "nul\0.json"])
def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, name: str) -> None:
    """Missing files and folders are told in one line."""
    (tmp_path / "folder.json").mkdir()
    with pytest.raises(RuleError, match="cannot be read: ") as caught:
        imported(tmp_path / name).check(Hosts(1, 1))
    assert "\n" not in str(caught.value)


REFUSED: list[tuple[Callable[[Document], None], str]] = [
    (put("h0", prat="node"), "vertex 'h0': unknown attribute 'prat'; did you mean 'part'?"),
    (put("h0", zzz=1), "vertex 'h0': unknown attribute 'zzz'; known are accelerator, cooling"),
    (put("h0", "l00", bandwith=1e9), "edge 'h0' - 'l00': unknown attribute 'bandwith'; did you mean 'bandwidth'?"),
    (put("l00", part="leef"), "vertex 'l00': unknown part 'leef'; did you mean 'leaf'?"),
    (put("l00", part=["leaf"]), "vertex 'l00': unknown part ['leaf']"),
    (put("h0", "l00", bandwidth=-1), "edge 'h0' - 'l00': bandwidth = -1 must be a positive number"),
    (put("h0", "l00", bandwidth=0), "edge 'h0' - 'l00': bandwidth = 0 must be a positive number"),
    (put("h0", "l00", bandwidth=float("nan")), "edge 'h0' - 'l00': bandwidth = nan must be a positive number"),
    (put("h0", "l00", bandwidth=float("inf")), "edge 'h0' - 'l00': bandwidth = inf must be a positive number"),
    (put("h0", "l00", bandwidth=True), "edge 'h0' - 'l00': bandwidth = True: must be text"),
    (put("h0", "l00", bandwidth=10**400), "edge 'h0' - 'l00': bandwidth = 1000"),
    (put("h0", "l00", bandwidth="fast"), "edge 'h0' - 'l00': bandwidth = 'fast': 'fast' is not a quantity"),
    (put("h0", "l00", bandwidth="400"), "edge 'h0' - 'l00': bandwidth = '400': '400' needs a unit"),
    (put("h0", "l00", bandwidth="0 Gb/s"), "edge 'h0' - 'l00': bandwidth = '0 Gb/s' must be a positive number"),
    (put("h0", "l00", cables=0), "edge 'h0' - 'l00': cables = 0 must be from 1 to 65536"),
    (put("h0", "l00", cables=1.5), "edge 'h0' - 'l00': cables = 1.5 must be a whole number"),
    (put("h0", "l00", cables=10**12), "must be from 1 to 65536"),
    (put("h0", "l00", cables="many"), "edge 'h0' - 'l00': cables = 'many' must be a whole number"),
    (put("h0", "l00", rail=float("inf")), "edge 'h0' - 'l00': rail = inf must be a whole number"),
    (put("h0", "l00", rail=2), "edge 'h0' - 'l00': rail = 2 must be from 0 to 1 (rails = 2)"),
    (
        lambda content: [
            entry.update(rail=0) for entry in content["edges"] if "s" not in entry["source"] + entry["target"]
        ],
        "host 'h0' has 2 cables on rail 0: it can have 1 on each of rails = 2",
    ),
    (put("l00", "s0", rail=0), "edge 'l00' - 's0': has a rail, which is for the cables of hosts alone"),
    (put("h0", index=0), "vertex 'h1' has no index, but vertex 'h0' has one"),
    (put("s0", index=0.5), "vertex 's0': index = 0.5 must be a whole number"),
    (together(put("s0", index=1), put("s1", index=1)), "vertex 's1': index = 1 must be from 0 to 1, each once"),
    (together(put("s0", index=0), put("s1", index=2)), "vertex 's1': index = 2 must be from 0 to 1, each once"),
    (put("h2", pod="b"), "vertex 'h0' has no pod, but vertex 'h2' has one"),
    (put("h2", pod=[1]), "vertex 'h2': pod = [1] must be a number or text"),
    (
        together(*(put(f"h{host}", pod=host // 2) for host in range(4))),
        "hosts 'h0' and 'h2', of the pods 0 and 1, are joined by leaves and spines without a core",
    ),
    (join("l00", "l00"), "edge 'l00' - 'l00': joins a vertex to itself"),
    (join("h0", "l000"), "edge 'h0' - 'l000': there is no vertex 'l000'; did you mean 'l00'?"),
    (join("h0", "h1"), "edge 'h0' - 'h1': joins two hosts"),
    (join("l00", "l01"), "edge 'l00' - 'l01': joins two switches of the same tier (leaf): only tiered Clos networks"),
    (join("h0", "s0"), "edge 'h0' - 's0': skips a tier, from node to spine: only tiered Clos networks"),
    (add("s0", "c", "d"), "vertex 'd' is 4 cables away from the nearest host: only tiered Clos networks"),
    (
        lambda content: content["nodes"].extend([{"id": "x"}, {"id": "y"}]) or join("x", "y")(content),
        "vertex 'x' reaches no host",
    ),
    (lambda content: content["nodes"].append({"id": "h4", "part": "node"}), "host 'h4' has no cable"),
    (lambda content: content["nodes"].append({"id": "x", "part": "spine"}), "vertex 'x' has no cable"),
    (drop("h1", "l00"), "host 'h1' has 1 access cables, host 'h0' has 2: hosts must have the same number of rails"),
    (
        lambda content: [put(f"h{host}", f"l{host // 2}0", cables=2)(content) for host in range(4)],
        "hosts have 3 access cables each, which do not divide over rails = 2",
    ),
    (
        together(*(drop(f"l1{rail}", f"s{spine}") for rail in (0, 1) for spine in (0, 1))),
        "host 'h2' cannot reach host 'h0' on rail 0: no switches join them",
    ),
    (
        together(*(drop("l11", f"s{spine}") for spine in (0, 1))),
        "host 'h2' cannot reach host 'h0' on rail 1: no switches join them",
    ),
    (lambda content: [vertex(content, f"h{host}").pop("part") for host in range(4)], "has no host"),
]


@cases(("change", "reason"), REFUSED, ids=[reason for _, reason in REFUSED])
def test_what_is_no_clos_network_is_refused(tmp_path: Path, change: Callable[[Document], Any], reason: str) -> None:
    """The message names the file, the vertex or edge, and the rule, on one line."""
    content = document()
    change(content)
    path = tmp_path / "graph.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(RuleError) as caught:
        imported(path, rails=2).check(Hosts(4, 8))
    assert str(caught.value).startswith(f"{path}: ")
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


@cases("planes", [(1, 2), (1, 1)])
def test_hosts_in_other_planes_are_refused(tmp_path: Path, planes: tuple[int, int]) -> None:
    """A host that shares one plane of two with the first can be reached, but not as the others are."""
    content = {
        "nodes": [{"id": name, "part": "node"} for name in "abc"] + [{"id": f"p{plane}"} for plane in {0, *planes}],
        "edges": [
            {"source": host, "target": f"p{plane}"}
            for host, homes in (("a", (0, 1)), ("b", (0, 1)), ("c", planes))
            for plane in homes
        ],
    }
    path = tmp_path / "graph.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(RuleError, match="hosts 'c' and 'a' are not in the same planes on rail 0"):
        imported(path, rails=1).check(Hosts(3, 1))


def test_directions_that_disagree_are_refused(tmp_path: Path) -> None:
    """A cable has one bandwidth; two arrows with different ones are a mistake."""
    content = document() | {"directed": True}
    content["edges"].append({"source": "s0", "target": "l00", "bandwidth": 1e9})
    content["edges"].append({"source": "l00", "target": "s0", "bandwidth": 2e9})
    content["edges"].remove(edge(content, "s0", "l00"))
    path = tmp_path / "graph.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(RuleError, match=r"differs from edge .* the other direction of the same cables"):
        imported(path, rails=2).check(Hosts(4, 8))


def test_scenario_and_file_must_agree(tmp_path: Path) -> None:
    """The number of hosts and of GPUs per rail are the scenario's to state."""
    kind = imported(written(tmp_path, two_tiers(), ".json"), rails=2)
    with pytest.raises(RuleError, match="has 4 hosts, but the cluster has nodes = 5"):
        kind.check(Hosts(5, 8))
    with pytest.raises(RuleError, match="3 GPUs per node do not divide evenly over 2 rails"):
        kind.check(Hosts(4, 3))
