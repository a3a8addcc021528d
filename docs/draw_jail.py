"""Draws docs/jail.svg, the README's picture: `python3 docs/draw_jail.py > docs/jail.svg`.

Each box brings its own background, and a browser in dark mode gets the dark palette: it reads well on both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

WIDTH, HEIGHT = 860, 430
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif"
LETTER = 0.55
"""Width of an average letter, as a share of the font's size: wide enough for every line here."""


@dataclass(frozen=True, slots=True)
class Palette:
    """Colours by what they are for; each pair of a background and its text is easy to tell apart."""

    page: str
    pod: str
    own: str
    jail: str
    line: str
    text: str
    on_jail: str


LIGHT = Palette("#ffffff", "#eef1f6", "#dde3ec", "#fde7b8", "#5b6675", "#1b2430", "#3d2c00")
DARK = Palette("#161b22", "#232b36", "#323d4c", "#6b4a00", "#9aa7b8", "#eef2f7", "#fff3d6")


def element(kind: str, style: str = "", attributes: Mapping[str, object] | None = None, text: str = "") -> Element:
    """An SVG element; `style` is its class."""
    named = {"class": style, **(attributes or {})}
    made = Element(kind, {name: str(value) for name, value in named.items() if value != ""})
    made.text = text or None
    return made


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle with a title and lines of text; `fill` names a colour of the palette."""

    x: int
    y: int
    width: int
    height: int
    fill: str
    title: str
    lines: tuple[str, ...] = ()
    title_size = 15
    line_size = 13

    @property
    def ink(self) -> str:
        """Colour of its text."""
        return "on_jail" if self.fill == "jail" else "text"

    def longest_line(self) -> float:
        """Width of its widest line, in pixels."""
        return max(LETTER * len(text) * size for text, size in self._rows())

    def text_height(self) -> int:
        """Height of all its lines, in pixels."""
        return 10 + sum(size + 6 for _, size in self._rows())

    def svg(self) -> Iterator[Element]:
        """The rectangle and its text."""
        place = {"x": self.x, "y": self.y, "width": self.width, "height": self.height, "rx": 6}
        yield element("rect", f"{self.fill} line", place)
        baseline = self.y + 4
        for number, (text, size) in enumerate(self._rows()):
            baseline += size + 6
            look = {"font-size": size, "font-weight": 400 if number else 600}
            yield element("text", self.ink, {"x": self.x + 10, "y": baseline, **look}, text)

    def _rows(self) -> list[tuple[str, int]]:
        return [(self.title, self.title_size), *((line, self.line_size) for line in self.lines)]


@dataclass(frozen=True, slots=True)
class Arrow:
    """A line with an arrowhead, and what it means beside its middle."""

    x1: int
    y1: int
    x2: int
    y2: int
    label: str

    def svg(self) -> Iterator[Element]:
        """The line and its label."""
        ends = {"x1": self.x1, "y1": self.y1, "x2": self.x2, "y2": self.y2}
        yield element("line", "stroke", {**ends, "marker-end": "url(#head)"})
        middle = {"x": (self.x1 + self.x2) // 2 + 8, "y": (self.y1 + self.y2) // 2 + 4}
        yield element("text", "text", {**middle, "font-size": 12}, self.label)


def pod(x: int, name: str, own: tuple[str, ...], entered: tuple[str, ...]) -> list[Box]:
    """A pod: its own root, which no user code sees, and the jail as the root of who works in it."""
    return [
        Box(x, 30, 260, 230, "pod", name),
        Box(x + 12, 62, 236, 72, "own", "the pod's own root", own),
        Box(x + 12, 166, 236, 84, "jail", "/ is the jail", entered),
    ]


BOXES = [
    *pod(
        20,
        "slurm-login-0",
        ("sshd, sackd, keys", "no code of users"),
        ("alice: sbatch train.sh", "her files, apt, pip, /home"),
    ),
    *pod(
        300,
        "cpu-0",
        ("slurmd, slurmstepd, keys", "no code of users"),
        ("job 7, step 0: python train.py", "own /tmp and /proc"),
    ),
    *pod(
        580,
        "cpu-1",
        ("slurmd, slurmstepd, keys", "no code of users"),
        ("job 7, step 0: python train.py", "own /tmp and /proc"),
    ),
    Box(
        20,
        320,
        820,
        90,
        "jail",
        "the jail: one ReadWriteMany volume",
        (
            "roots/<revision>: one complete root file system for each image, shared, read and write",
            "persistent/home, root, srv: beside the roots, over every one of them",
        ),
    ),
]
ARROWS = [
    Arrow(150, 134, 150, 162, "PAM module"),
    Arrow(430, 134, 430, 162, "SPANK plugin"),
    Arrow(710, 134, 710, 162, "SPANK plugin"),
    Arrow(150, 320, 150, 254, "mounted as /"),
    Arrow(430, 320, 430, 254, "mounted as /"),
    Arrow(710, 320, 710, 254, "mounted as /"),
]


def style(palette: Palette) -> str:
    """CSS rules of a palette."""
    fills = {name: getattr(palette, name) for name in ("page", "pod", "own", "jail", "text", "on_jail")}
    rules = [f".{name}{{fill:{colour}}}" for name, colour in fills.items()]
    return "".join([*rules, f".line,.stroke{{stroke:{palette.line}}}", f".head{{fill:{palette.line}}}"])


def picture() -> str:
    """The whole SVG."""
    namespace = {"xmlns": "http://www.w3.org/2000/svg", "role": "img"}
    drawing = element("svg", "", {**namespace, "viewBox": f"0 0 {WIDTH} {HEIGHT}", "font-family": FONT})
    head = {"id": "head", "viewBox": "0 0 8 8", "refX": 7, "refY": 4, "markerWidth": 8, "markerHeight": 8}
    marker = element("marker", "", {**head, "orient": "auto"})
    marker.append(element("path", "head", {"d": "M0 0 8 4 0 8z"}))
    drawing.extend([
        element("title", text="Each pod has a root of its own; its jobs and logins have the jail, a shared volume"),
        element("style", text=f"{style(LIGHT)}@media (prefers-color-scheme:dark){{{style(DARK)}}}"),
        marker,
        element("rect", "page", {"width": WIDTH, "height": HEIGHT, "rx": 8}),
        *(part for box in BOXES for part in box.svg()),
        *(part for arrow in ARROWS for part in arrow.svg()),
    ])  # fmt: skip
    ElementTree.indent(drawing)
    return f"{ElementTree.tostring(drawing, encoding='unicode')}\n"


if __name__ == "__main__":
    print(picture(), end="")
