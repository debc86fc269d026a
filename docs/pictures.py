#!/usr/bin/env python3
"""Draws the pictures of the manual.

    python3 docs/pictures.py            writes docs/*.svg, and src/manual/pictures.md for rustdoc
    python3 docs/pictures.py --check    fails if one of them is not what it would write
"""

import pathlib
import sys
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Each picture brings its background, so that it can be read on a page of either colour.
STYLE = """
text { font: 14px sans-serif; fill: #24292f }
.small { font-size: 12px }
.code { font-family: monospace; font-size: 13px }
.strong { font-weight: bold }
.card { fill: #ffffff }
.line { stroke: #57606a; fill: none; stroke-width: 1.5 }
.thin { stroke: #8c959f; fill: none; stroke-dasharray: 4 4 }
.yes { stroke: #1a7f37; fill: none; stroke-width: 1.5 }
.no { stroke: #cf222e; fill: none; stroke-width: 1.5 }
.box { fill: #f6f8fa; stroke: #8c959f }
.held { fill: #4ac26b }
.key { fill: #54aeff }
.drift { fill: #d4a72c }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 }
.card { fill: #0d1117 }
.line { stroke: #9198a1 }
.thin { stroke: #656c76 }
.yes { stroke: #3fb950 }
.no { stroke: #f85149 }
.box { fill: #151b23; stroke: #656c76 }
.held { fill: #238636 }
.key { fill: #1f6feb }
.drift { fill: #9e6a03 }
}
"""


class Picture:
    """An SVG that grows by its parts."""

    def __init__(self, title, width, height):
        self.parts = [
            f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' width='{width}' height='{height}' "
            "role='img'>",
            f"<title>{title}</title>",
            f"<style>{STYLE}</style>",
            f"<rect class='card' width='{width}' height='{height}' rx='8'/>",
        ]

    def text(self, x, y, words, kind="", anchor="middle"):
        words = words.replace("&", "&amp;").replace("<", "&lt;")
        kind = f" class='{kind}'" if kind else ""
        self.parts.append(f"<text x='{x}' y='{y}'{kind} text-anchor='{anchor}'>{words}</text>")

    def line(self, x1, y1, x2, y2, kind="line"):
        self.parts.append(f"<path class='{kind}' d='M{x1} {y1}L{x2} {y2}'/>")

    def arrow(self, x1, y1, x2, y2, kind="line"):
        """The head is two strokes, which every viewer draws."""
        length = ((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5
        ux, uy = (x2 - x1) / length, (y2 - y1) / length
        head = "".join(
            f"M{x2 - 9 * ux + side * 4 * uy:.1f} {y2 - 9 * uy - side * 4 * ux:.1f}L{x2} {y2}" for side in (1, -1)
        )
        self.parts.append(f"<path class='{kind}' d='M{x1} {y1}L{x2} {y2}{head}'/>")

    def cross(self, x, y):
        self.parts.append(f"<path class='no' d='M{x - 6} {y - 6}l12 12M{x - 6} {y + 6}l12 -12'/>")

    def rect(self, x, y, width, height, kind="box", round_by=4):
        self.parts.append(
            f"<rect class='{kind}' x='{x}' y='{y}' width='{width}' height='{height}' rx='{round_by}'/>"
        )

    def svg(self):
        # An empty line would end it where it stands in Markdown.
        return "\n".join([*self.parts, "</svg>", ""]).replace("\n\n", "\n")


def lock():
    """One lock over three nodes, of which one is down: A gets it, B is refused, and gets it when A has released it."""
    picture = Picture("One lock over three nodes: two of them are a majority", 760, 490)
    a, nodes, b = 70, [290, 410, 530], 690
    for x, name in [(a, "client A"), *zip(nodes, ["node 1", "node 2", "node 3"]), (b, "client B")]:
        picture.text(x, 30, name, "strong")
        picture.line(x, 54, x, 474, "thin")
    picture.text(nodes[2], 48, "(down)", "small")

    picture.text(a + 14, 66, "SET k tokenA NX PX ttl", "code", "start")
    for x in nodes:
        picture.arrow(a, 76, x, 76 + (x - a) // 12, "line")
    picture.cross(nodes[2] + 14, 76 + (nodes[2] - a) // 12)
    for x in nodes[:2]:
        picture.arrow(x, 76 + (x - a) // 12 + 8, a, 76 + (x - a) // 6 + 8, "yes")
    picture.text(180, 122, "OK", "code")
    picture.rect(a - 7, 144, 14, 168, "held")
    picture.text(a + 14, 172, "2 of 3: A holds the lock", "strong", "start")

    picture.text(b - 14, 186, "SET k tokenB NX PX ttl", "code", "end")
    for x in nodes[:2]:
        picture.arrow(b, 196, x, 196 + (b - x) // 12, "line")
        picture.arrow(x, 196 + (b - x) // 12 + 8, b, 196 + (b - x) // 6 + 8, "no")
    picture.text(590, 236, "nil", "code")
    picture.text(b - 14, 290, "held: B waits", "", "end")

    picture.text(a + 14, 300, "delete k if it is tokenA", "code", "start")
    for x in nodes[:2]:
        picture.arrow(a, 312, x, 312 + (x - a) // 12, "line")
    picture.arrow(nodes[1], 346, b, 366, "line")
    picture.text(600, 350, "push: k is free", "small")

    picture.text(b - 14, 390, "SET k tokenB NX PX ttl", "code", "end")
    for x in nodes[:2]:
        picture.arrow(b, 396, x, 396 + (b - x) // 16, "line")
        picture.arrow(x, 396 + (b - x) // 16 + 6, b, 396 + (b - x) // 8 + 6, "yes")
    picture.rect(b - 7, 454, 14, 20, "held")
    picture.text(b - 14, 472, "2 of 3: B holds the lock", "strong", "end")
    return picture.svg()


def validity():
    """Why a lock ends before its keys do."""
    picture = Picture("A lock is valid until its ttl less the drift, counted from before it was asked for", 760, 270)
    x0, ttl = 130, 480
    granted, end = x0 + 70, x0 + ttl - 40
    picture.text(x0, 28, "first byte sent", "small")
    picture.text(granted + 6, 46, "second OK", "small", "start")
    picture.text(end, 28, "end of the validity", "small")
    picture.text(x0 + ttl + 6, 46, "ttl over", "small", "start")
    for x, top in [(x0, 34), (granted, 50), (end, 34), (x0 + ttl, 50)]:
        picture.line(x, top, x, 238, "thin")

    picture.text(20, 85, "client", "strong", "start")
    picture.rect(granted, 66, end - granted, 28, "held")
    picture.text((granted + end) // 2, 85, "valid: the holder may work")
    picture.rect(end, 66, x0 + ttl - end, 28, "drift")
    picture.text(end + 20, 85, "drift", "small")

    for row, (name, begin) in enumerate([("node 1", x0 + 18), ("node 2", x0 + 40)]):
        y = 116 + 40 * row
        picture.text(20, y + 19, name, "strong", "start")
        picture.rect(begin, y, ttl, 28, "key")
        picture.text(begin + ttl // 2, y + 19, "the key, for the ttl of this node's clock")
    picture.text(20, 215, "node 3", "strong", "start")
    picture.text(x0 + 18, 215, "no answer: two of three are enough", "small", "start")
    picture.arrow(120, 248, 740, 248)
    picture.text(740, 264, "time", "small", "end")
    return picture.svg()


def layers():
    """What calls what."""
    picture = Picture("The layers: faces, engine, nodes, protocol, wire", 760, 330)
    across = [
        (20, "shearline", "the command"),
        (204, "Redlock", "threads and tasks"),
        (388, "LocalRedlock", "the caller's thread"),
        (572, "Driver", "your event loop"),
    ]
    for x, name, what in across:
        picture.rect(x, 20, 168, 54)
        picture.text(x + 84, 44, name, "strong")
        picture.text(x + 84, 63, what, "small")
    picture.arrow(188, 47, 203, 47)
    rows = [
        ("engine", "operations, claims, queues, renewals: no clock, no socket, no thread, no_std"),
        ("node", "one node: connection, handshake, trust, abilities"),
        ("resp", "RESP2 and RESP3"),
        ("wire", "sockets, TLS and one poll, by mio"),
    ]
    for row, (name, what) in enumerate(rows):
        y = 92 + 46 * row
        picture.rect(20, y, 720, 36)
        picture.text(36, y + 23, name, "strong", "start")
        picture.text(120, y + 23, what, "", "start")
    for place in range(3):
        x = 120 + 200 * place
        picture.arrow(x + 60, 266, x + 60, 287)
        picture.rect(x, 288, 120, 30, "key", 14)
        picture.text(x + 60, 308, "Redis or Valkey", "small")
    return picture.svg()


def files():
    """Returns what each file has to hold, by its path."""
    pictures = {"lock.svg": lock(), "validity.svg": validity(), "layers.svg": layers()}
    drawn = {f"docs/{name}": text for name, text in pictures.items()}
    # In rustdoc a picture is in the page itself.
    address = "data:image/svg+xml,{}"
    lines = [f"[{name}]: {address.format(urllib.parse.quote(text, safe=''))}\n" for name, text in pictures.items()]
    return {**drawn, "src/manual/pictures.md": "".join(lines)}


def main():
    stale = []
    for path, text in files().items():
        file = ROOT / path
        if sys.argv[1:] == ["--check"]:
            if not file.exists() or file.read_text() != text:
                stale.append(path)
        else:
            file.write_text(text)
    if stale:
        sys.exit(f"run python3 docs/pictures.py: it would change {', '.join(stale)}")


if __name__ == "__main__":
    main()
