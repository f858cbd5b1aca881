import html

from chainrule.core.notebook import InlinePage, drawing, table, text


def test_names_cannot_leave_their_place() -> None:
    nasty = "<script>alert(1)</script>\x1b[2J"
    for shown in (text(nasty), table([nasty], [[nasty]], title=nasty)):
        assert "<script" not in shown
        assert "\x1b" not in shown


def test_a_drawing_stands_without_its_declaration() -> None:
    assert (
        drawing("<?xml version='1.0'?>\n<svg></svg>", "a < b") == "<pre>a &lt; b</pre><div><svg></svg></div>"
    )


def test_a_page_comes_back_whole_from_its_frame() -> None:
    page = '<!doctype html><p title="a">&amp; 1 < 2</p>'
    framed = InlinePage(page, 300)._repr_html_()
    assert html.unescape(framed.split('srcdoc="')[1].split('" width')[0]) == page
    assert 'height="300"' in framed
