"""SVG output: one element tree in, one tidy SVG text out.

Colours become CSS variables where the picture is to be embedded, fonts are named once, names of clip paths and
markers are made unique to the picture (several pictures share a page), and the title, the caption and any metadata
are written where screen readers and programs look for them.
"""

import json
import re
from collections.abc import Mapping
from typing import Any
from xml.etree import ElementTree

from chainrule.core.palette import LIGHT
from chainrule.core.pictures import Picture
from chainrule.core.quoting import plain, printable
from chainrule.report.style import FONT_STACK

Element = ElementTree.Element

_SVG = "{http://www.w3.org/2000/svg}"
_XLINK = "{http://www.w3.org/1999/xlink}"
_COLOR = re.compile(r"#[0-9a-f]{6}\b")
_REFERENCE = re.compile(r"url\(#([^)]+)\)")
_LONG = re.compile(r"\d+\.\d{3,}")
"""A coordinate finer than a hundredth of a pixel."""
_ROLES = {value: role for role, value in LIGHT.items()}


def canvas(width: float, height: float) -> Element:
    """An empty drawing of this size in CSS pixels, on paper."""
    root = Element("svg", {"viewBox": f"0 0 {width:g} {height:g}"})
    ElementTree.SubElement(
        root, "rect", {"width": f"{width:g}", "height": f"{height:g}", "style": f"fill: {LIGHT['paper']}"}
    )
    return root


def write_text(
    root: Element,
    x: float,
    y: float,
    text: str,
    *,
    size: float,
    role: str = "ink",
    anchor: str = "start",
    bold: bool = False,
) -> None:
    """Text on its baseline."""
    style = f"font-size: {size:g}px; text-anchor: {anchor}; fill: {LIGHT[role]}" + (
        "; font-weight: 600" if bold else ""
    )
    ElementTree.SubElement(root, "text", {"x": f"{x:g}", "y": f"{y:g}", "style": style}).text = plain(text)


def from_document(text: str) -> Element:
    """The tree of a drawing that is already SVG, without its name spaces and its own metadata."""
    root = ElementTree.fromstring(text)
    for parent in list(root.iter()):
        for child in [c for c in parent if c.tag == f"{_SVG}metadata"]:
            parent.remove(child)
    for element in root.iter():
        element.tag = element.tag.removeprefix(_SVG)
        for name in [n for n in element.attrib if n.startswith(_XLINK)]:
            element.set(name.replace(_XLINK, "xlink:"), element.attrib.pop(name))
    return root


def finish(root: Element, picture: Picture, *, theme: str, metadata: Mapping[str, Any] | None) -> str:
    """The text of a drawing."""
    width, height = root.attrib.pop("viewBox").split()[2:]
    root.attrib = {
        "xmlns": "http://www.w3.org/2000/svg",
        "xmlns:xlink": "http://www.w3.org/1999/xlink",
        "viewBox": f"0 0 {width} {height}",
        "width": width,
        "height": height,
        "role": "img",
        "style": f"font-family: {FONT_STACK}",
    }
    _own_names(root, picture.name)
    for element in root.iter():
        for name in {"d", "x", "y"} & element.attrib.keys():
            element.set(name, _LONG.sub(lambda m: f"{float(m[0]):.2f}", element.attrib[name]))
        if element is not root and "style" in element.attrib:
            element.set("style", _style(element.attrib["style"], theme))
    for tag, text in reversed(_about(picture, metadata).items()):
        note = Element(tag)
        note.text = text
        root.insert(0, note)
    _tidy(root)
    return ElementTree.tostring(root, encoding="unicode") + "\n"


def _style(style: str, theme: str) -> str:
    declarations = [
        d.strip() for d in style.split(";") if d.strip() and not d.strip().startswith("font-family")
    ]
    joined = "; ".join(declarations)
    if theme == "light":
        return joined
    return _COLOR.sub(lambda m: f"var(--cr-{_ROLES[m[0]]}, {m[0]})" if m[0] in _ROLES else m[0], joined)


def _own_names(root: Element, picture: str) -> None:
    """Keep only the ids something refers to, and put the picture's name before them."""
    prefix = re.sub(r"[^A-Za-z0-9]+", "-", picture) + "-"
    used = set()
    for element in root.iter():
        for name, value in element.attrib.items():
            if name == "xlink:href" and value.startswith("#"):
                used.add(value[1:])
                element.set(name, f"#{prefix}{value[1:]}")
            elif match := _REFERENCE.search(value):
                used.add(match[1])
                element.set(name, _REFERENCE.sub(rf"url(#{prefix}\1)", value))
    for element in root.iter():
        if "id" in element.attrib:
            name = element.attrib.pop("id")
            if name in used:
                element.set("id", prefix + name)


def _about(picture: Picture, metadata: Mapping[str, Any] | None) -> dict[str, str]:
    about = {"title": plain(picture.title)}
    if picture.caption:
        about["desc"] = printable(picture.caption)
    if metadata:
        about["metadata"] = printable(json.dumps(dict(metadata), ensure_ascii=False, default=str))
    return about


def _tidy(root: Element) -> None:
    """One element a line, no indentation, no groups left with nothing in them."""
    for parent in list(root.iter()):
        for child in [c for c in parent if c.tag in ("g", "defs") and len(c) == 0]:
            parent.remove(child)
    for element in root.iter():
        element.tail = "\n"
        if len(element):
            element.text = "\n"


__all__ = ["Element", "canvas", "finish", "from_document", "write_text"]
