"""Reading files that describe a graph: GraphML, and JSON with a list of nodes and one of edges (node-link)."""

from __future__ import annotations

import difflib
import json
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, NoReturn, TypeAlias
from xml.parsers import expat

import numpy as np

from sim.cluster.topology import VERTEX_PARTS, Topology, edges
from sim.scenario.fields import RuleError
from sim.yamlfile import Table, content_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import networkx as nx

Name: TypeAlias = str | int

VERTEX_NAMES = frozenset(
    ("part", "index", "name", "label", "pod", "leaf", "rack", "pdu", "cooling", "scale_up", "power", "accelerator")
)

EDGE_NAMES = frozenset(("bandwidth", "cables", "tier", "rail", "id", "key"))

SUFFIXES = (".graphml", ".xml", ".json")


class Link(NamedTuple):
    """An edge as written: the vertices that it joins, and what is said about it."""

    source: Name
    target: Name
    attributes: Table

    @property
    def title(self) -> str:
        """What messages call this edge."""
        return f"edge {self.source!r} - {self.target!r}"


class Description(NamedTuple):
    """A graph as written: vertices by name with what is said about them, edges, and whether they have a direction."""

    vertices: dict[Name, Table]
    links: list[Link]
    directed: bool


def read_graph(path: str) -> Description:
    """Read a graph from GraphML (``.graphml``, ``.xml``) or node-link JSON (``.json``).

    Attributes without a value are left out. Names of attributes are checked, their values are not.

    Parameters
    ----------
    path : str
        The file.

    Returns
    -------
    Description
        Vertices and edges in the order of the file.

    Raises
    ------
    RuleError
        In one line that names the file and what in it is wrong.

    References
    ----------
    The GraphML file format, http://graphml.graphdrawing.org. Of it are read: keys with their types and defaults, nodes,
    edges and their data. Hyperedges and nested graphs are refused, ports and the graphics of editors are passed over.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        refuse(path, f"the name must end in {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}")
    try:
        content = content_of(Path(path))
    except (OSError, ValueError) as error:
        unreadable(path, error)
    description = _from_json(path, content) if suffix == ".json" else _from_graphml(path, content)
    for name, attributes in description.vertices.items():
        _check_names(path, f"vertex {name!r}", attributes, VERTEX_NAMES)
    for link in description.links:
        _check_names(path, link.title, link.attributes, EDGE_NAMES)
        for name in (link.source, link.target):
            if name not in description.vertices:
                refuse(path, f"{link.title}: there is no vertex {name!r}{nearest(name, description.vertices)}")
    return description


def refuse(path: str, rule: str) -> NoReturn:
    """Refuse a file in one line.

    Raises
    ------
    RuleError
        Always.
    """
    raise RuleError(("file",), " ".join(f"{path}: {rule}".splitlines()))


def unreadable(path: str, error: Exception) -> NoReturn:
    """Refuse a file that cannot be read, with the reason that the system gives."""
    reason = getattr(error, "strerror", None) or str(error)
    refuse(path, f"cannot be read: {reason[:1].lower()}{reason[1:]}")


def quoted(value: object) -> str:
    """Return a value as messages show it, cut where it is long."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def nearest(word: object, choices: Iterable[object]) -> str:
    """Return an offer of the choice that is written most like `word`, if one is."""
    near = difflib.get_close_matches(str(word), sorted({str(choice) for choice in choices}), 1)
    return f"; did you mean {near[0]!r}?" if near else ""


def _check_names(path: str, title: str, attributes: Table, known: frozenset[str]) -> None:
    """Refuse attributes that nothing reads: they may be a misspelt name."""
    for name in attributes:
        if name not in known:
            offer = nearest(name, known) or f"; known are {', '.join(sorted(known))}"
            refuse(path, f"{title}: unknown attribute {quoted(name)}{offer}")


def _from_json(path: str, content: bytes) -> Description:
    """Read node-link JSON."""
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        refuse(path, f"is not JSON: {error}")
    links_key = "edges" if isinstance(document, dict) and "edges" in document else "links"
    if not (isinstance(document, dict) and all(isinstance(document.get(key), list) for key in ("nodes", links_key))):
        refuse(path, "is not node-link JSON: it must be a mapping with a list of 'nodes' and a list of 'edges'")
    vertices: dict[Name, Table] = {}
    for number, entry in enumerate(document["nodes"]):
        name = _json_name(path, f"nodes[{number}]", entry, "id")
        if name in vertices:
            refuse(path, f"vertex {name!r} is described twice")
        vertices[name] = _given(entry, ("id",))
    links = []
    for number, entry in enumerate(document[links_key]):
        ends = [_json_name(path, f"{links_key}[{number}]", entry, key) for key in ("source", "target")]
        links.append(Link(ends[0], ends[1], _given(entry, ("source", "target"))))
    return Description(vertices, links, document.get("directed") is True)


def _json_name(path: str, place: str, entry: object, key: str) -> Name:
    """Return the name of a vertex that an entry holds under a key."""
    name = entry.get(key) if isinstance(entry, dict) else None
    if not isinstance(name, str | int) or isinstance(name, bool):
        refuse(path, f"{place} must be a mapping with text or a whole number as {key!r}")
    return name


def _given(entry: Table, without: tuple[str, ...]) -> Table:
    """Return what an entry says, without some keys and without what has no value."""
    return {key: value for key, value in entry.items() if key not in without and value is not None and value != ""}


def _from_graphml(path: str, content: bytes) -> Description:
    """Read GraphML. A document type is refused before anything that it declares could be expanded."""
    reader = _GraphMLReader(path)
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.buffer_text = True
    parser.StartDoctypeDeclHandler = reader.doctype
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.text
    try:
        parser.Parse(content, True)
    except RuleError:
        raise
    except (expat.ExpatError, LookupError, ValueError) as error:
        refuse(path, f"is not XML: {error}")
    return reader.description()


class _Key(NamedTuple):
    """What a GraphML file declares about an attribute; without a name it is an editor's own."""

    name: str | None
    kind: str
    domain: str


class _GraphMLReader:
    """Collects vertices and edges while the parser goes through the file."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.depth = 0
        self.directed: bool | None = None
        self.keys: dict[str, _Key] = {}
        self.defaults: dict[str, Table] = {"node": {}, "edge": {}}
        self.vertices: dict[Name, Table] = {}
        self.links: list[Link] = []
        self.title = ""
        self.owner: Table | None = None
        self.key = ""
        self.words: list[str] | None = None
        self.words_depth = 0

    def doctype(self, *_: object) -> None:
        """Refuse a document type: it can declare entities that grow without bound or read other files."""
        refuse(self.path, "has a document type (<!DOCTYPE ...>), which may declare entities: remove it")

    def start(self, tag: str, given: dict[str, str]) -> None:
        """Take up an element."""
        self.depth += 1
        local = tag.rpartition(" ")[2]
        if self.depth == 1 and local != "graphml":
            refuse(self.path, f"is not GraphML: its first element is <{local}>")
        if self.words is not None:
            return
        if local == "key":
            self.key = given.get("id", "")
            kind, domain = given.get("attr.type", "string"), given.get("for", "all")
            self.keys[self.key] = _Key(given.get("attr.name"), kind, domain)
        elif local == "graph":
            if self.directed is not None:
                refuse(self.path, "has several graphs, or one inside another: only a single graph can be read")
            self.directed = given.get("edgedefault") == "directed"
        elif local == "hyperedge":
            refuse(self.path, "has a hyperedge: a cable has two ends")
        elif local == "node":
            self._start_vertex(given)
        elif local == "edge":
            self._start_link(given)
        elif local in ("data", "default"):
            self.key = given.get("key", "") if local == "data" else self.key
            if self.key not in self.keys:
                refuse(self.path, f"{self.title or 'the graph'}: data with the key {self.key!r}, which is not declared")
            self.words, self.words_depth = [], self.depth

    def text(self, words: str) -> None:
        """Take up the text of a value, not of what editors put inside."""
        if self.words is not None and self.depth == self.words_depth:
            self.words.append(words)

    def end(self, tag: str) -> None:
        """Put down an element."""
        local = tag.rpartition(" ")[2]
        if self.words is not None and self.depth == self.words_depth:
            self._store("".join(self.words).strip(), is_default=local == "default")
            self.words = None
        elif self.words is None and local in ("node", "edge"):
            self.owner, self.title = None, ""
        self.depth -= 1

    def description(self) -> Description:
        """Return the graph, with the defaults of what was not said."""
        if self.directed is None:
            refuse(self.path, "is GraphML without a graph")
        vertices = {name: {**self.defaults["node"], **said} for name, said in self.vertices.items()}
        links = [link._replace(attributes={**self.defaults["edge"], **link.attributes}) for link in self.links]
        return Description(vertices, links, self.directed)

    def _start_vertex(self, given: dict[str, str]) -> None:
        name = given.get("id")
        if name is None:
            refuse(self.path, f"node number {len(self.vertices)} has no id")
        if name in self.vertices:
            refuse(self.path, f"vertex {name!r} is described twice")
        self.owner = self.vertices[name] = {}
        self.title = f"vertex {name!r}"

    def _start_link(self, given: dict[str, str]) -> None:
        if not given.keys() >= {"source", "target"}:
            refuse(self.path, f"edge number {len(self.links)} needs a source and a target")
        link = Link(given["source"], given["target"], {})
        if given.get("directed", str(self.directed).lower()) != str(self.directed).lower():
            refuse(self.path, f"{link.title}: a file must not mix directed and undirected edges")
        self.links.append(link)
        self.owner, self.title = link.attributes, link.title

    def _store(self, text: str, *, is_default: bool) -> None:
        """Keep a value with what it belongs to."""
        key = self.keys[self.key]
        if key.name is None or not text:
            return
        value = self._converted(text, key)
        if not is_default:
            if self.owner is not None:
                self.owner[key.name] = value
        else:
            for domain in self.defaults.keys() & ({key.domain} if key.domain != "all" else self.defaults.keys()):
                self.defaults[domain][key.name] = value

    def _converted(self, text: str, key: _Key) -> object:
        """Return a value in the type that the file declares for it."""
        try:
            if key.kind in ("int", "long"):
                return int(text)
            return float(text) if key.kind in ("float", "double") else text
        except ValueError:
            refuse(self.path, f"{self.title or 'a default'}: {key.name} = {quoted(text)} is not of type {key.kind}")


# ----------------------------------------
# Export of a topology as a networkx graph and as text: for files, pictures and checks, never for a simulation.

_KINDS = {int: "long", float: "double", str: "string"}


def to_networkx(topology: Topology) -> nx.Graph[int]:
    """Return hosts and switches as an undirected graph.

    Vertices carry ``part`` and ``index``, hosts also their domains. Parallel cables become one edge with their number
    ``cables``, their summed ``bandwidth`` [B/s per direction] and their ``tier``; where they are all of one rail of a
    host, also its ``rail``.

    Notes
    -----
    Hosts do not forward traffic: a path search over this graph must not pass *through* a vertex whose part is
    ``node``.
    """
    import networkx as nx

    graph: nx.Graph[int] = nx.Graph(name=topology.name)
    for part in VERTEX_PARTS:
        for index, vertex in enumerate(topology.vertices(part)):
            graph.add_node(vertex, part=part, index=index)
    for domain, ids in topology.domains.items():
        nx.set_node_attributes(graph, dict(enumerate(ids.tolist())), domain)

    cables = edges(topology)
    order = np.lexsort((cables.rail, cables.upper, cables.lower))
    lower, upper, rail = cables.lower[order], cables.upper[order], cables.rail[order]
    new = np.ones(lower.size, dtype=bool)
    new[1:] = (np.diff(lower) != 0) | (np.diff(upper) != 0)
    first = np.flatnonzero(new)
    last = np.append(first[1:], lower.size) - 1
    bandwidth = np.add.reduceat(cables.bandwidth[order], first)
    one_rail = np.where(rail[first] == rail[last], rail[first], -1)
    columns = (lower[first], upper[first], last - first + 1, bandwidth, cables.tier[order][first], one_rail)
    for low, high, many, total, tier, of in zip(*(column.tolist() for column in columns), strict=True):
        graph.add_edge(low, high, cables=many, bandwidth=total, tier=tier, **({"rail": of} if of >= 0 else {}))
    return graph


def to_graphml(topology: Topology) -> str:
    """Return the graph as GraphML.

    Notes
    -----
    The writer of networkx takes four times as long, which is half a minute for 100,000 GPUs.
    """
    from xml.sax.saxutils import escape  # with which half of the internet is imported

    graph = to_networkx(topology)
    lines = [
        '<?xml version="1.0" encoding="utf-8"?>',
        '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">',
        '<key id="name" for="graph" attr.name="name" attr.type="string"/>',
    ]
    for owner, given in (
        ("node", (said for _, said in graph.nodes.data())),
        ("edge", (said for *_, said in graph.edges.data())),
    ):
        kinds = {name: _KINDS[type(value)] for said in given for name, value in said.items()}
        lines += [
            f'<key id="{name}" for="{owner}" attr.name="{name}" attr.type="{kind}"/>' for name, kind in kinds.items()
        ]
    lines += ['<graph edgedefault="undirected">', f'<data key="name">{escape(topology.name)}</data>']
    lines += [f'<node id="{vertex}">{_data(said)}</node>' for vertex, said in graph.nodes.data()]
    lines += [f'<edge source="{low}" target="{high}">{_data(said)}</edge>' for low, high, said in graph.edges.data()]
    return "\n".join([*lines, "</graph>", "</graphml>", ""])


def _data(said: Table) -> str:
    """Return attributes as elements; none of their values needs to be escaped."""
    return "".join(f'<data key="{name}">{value}</data>' for name, value in said.items())


def to_node_link(topology: Topology) -> str:
    """Return the graph as JSON with a list of ``nodes`` and one of ``edges``, an entry a line."""
    graph = to_networkx(topology)
    nodes = ",\n".join(json.dumps({"id": vertex, **said}) for vertex, said in graph.nodes.data())
    links = ",\n".join(json.dumps({"source": low, "target": high, **said}) for low, high, said in graph.edges.data())
    head = json.dumps({"directed": False, "multigraph": False, "graph": {"name": topology.name}})[:-1]
    return f'{head}, "nodes": [\n{nodes}\n], "edges": [\n{links}\n]}}\n'


GRAPH_FORMATS: dict[str, Callable[[Topology], str]] = {"graphml": to_graphml, "json": to_node_link}

"""What writes a graph, by the name of the format."""
