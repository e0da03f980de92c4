"""Files that are no scenario, and files that extend others."""

from __future__ import annotations

from tests.unit.bad_input import BASE, bad

CASES = [
    bad("", "the file is empty", place="s.yaml"),
    bad("# to do\n", "the file is empty", place="s.yaml"),
    bad("- name: base\n", "must hold a mapping (key: value) at the top level", place="s.yaml:1:1"),
    bad({3: "horizon: [30 d"}, "invalid YAML", place="s.yaml:4:5"),
    bad(b"\x89PNG\r\n\x1a\n", "is not UTF-8 text (byte 0x89)", place="s.yaml:1:1"),
    bad(b"name: base\nhorizon: 30\xa0d\n", "is not UTF-8 text (byte 0xa0)", place="s.yaml:2:12"),
    bad({5: "§\t- {name: train, gpus: 64}"}, "a tab cannot stand here; use spaces"),
    bad({3: "horizon: 30 d\n§horizon: 60 d"}, "horizon: key is given twice", "line 3"),
    bad({3: "§horizon:"}, "horizon: key has no value"),
    bad({12: "spares: {§hot:2}"}, "spares.hot:2: key has no value", "write a space after"),
    bad(
        {1: "extends: §bse.yaml"},
        "extends: bse.yaml cannot be read",
        "did you mean 'base.yaml'?",
        files={"base.yaml": BASE},
    ),
    bad({1: "extends: §s.yaml"}, "extends: files extend each other: s.yaml -> s.yaml"),
    bad(
        "extends: b.yaml\n",
        "files extend each other: s.yaml -> b.yaml -> s.yaml",
        place="b.yaml:2:10",
        files={"b.yaml": "name: b\nextends: s.yaml\n"},
    ),
    bad(
        {2: "cluster: §smal.yaml"},
        "cluster: smal.yaml cannot be read",
        "did you mean 'small.yaml'?",
        files={"small.yaml": "nodes: 16\n"},
    ),
    bad(
        {2: "cluster: c.yaml"},
        "cluster.nods: unknown key 'nods'; did you mean 'nodes'?",
        place="c.yaml:2:1",
        files={"c.yaml": "fabric: {leaf: {nodes: 4}}\nnods: 16\n"},
    ),
]
