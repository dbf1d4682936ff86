import xml.etree.ElementTree as ElementTree

import matplotlib

from shadowprice.reports.svg import MODEL, VARIABLES, figure, legend_above, steps, to_svg


def drawn(key: str, label: str = "a line") -> str:
    with figure(3, 2) as (canvas, axes):
        axes.plot([0, 1], [0, 1], color=MODEL, label=label)
        steps(axes, [1.0, 2.0], [0.0, 0.5, 1.0], color=MODEL)
        legend_above(axes)
        return to_svg(canvas, key, label)


def test_a_figure_is_one_parsable_element_without_namespaces_metadata_or_size():
    text = drawn("a")
    root = ElementTree.fromstring(text)
    assert root.tag == "svg"
    assert set(root.attrib) == {"viewBox", "role", "aria-label"}
    assert "metadata" not in text
    assert "http" not in text


def test_colors_are_variables_of_the_page_and_every_stand_in_is_replaced():
    text = drawn("a")
    assert "var(--model)" in text
    assert not any(color in text for color in VARIABLES)


def test_ids_of_two_figures_differ_and_references_follow_their_figure():
    ids = [{each.get("id") for each in ElementTree.fromstring(drawn(key)).iter() if each.get("id")} for key in "ab"]
    assert ids[0]
    assert not ids[0] & ids[1]
    assert "url(#a-" in drawn("a")


def test_texts_with_markup_and_dollars_are_plain_text():
    root = ElementTree.fromstring(drawn("a", '<b>"$x$" & y</b>'))
    assert root.get("aria-label") == '<b>"$x$" & y</b>'
    assert '<b>"$x$" & y</b>' in [each.text for each in root.iter("text")]


def test_the_style_of_other_figures_is_left_alone():
    before = dict(matplotlib.rcParams)
    drawn("a")
    assert dict(matplotlib.rcParams) == before
