"""Heads are data: names in, settings out."""

import pytest

from sidequest.agent.modes import Head, make_heads


def test_the_extrinsic_head_is_always_there():
    expected = Head("extrinsic", "extrinsic", 0.997, False, "all")
    assert make_heads(()) == make_heads(("extrinsic",)) == (expected,)


def test_order_does_not_depend_on_the_caller():
    heads = make_heads(("twin", "short", "intrinsic", "short"))
    names = [head.name for head in heads]
    assert names == ["extrinsic", "intrinsic", "short", "twin"]


def test_an_intrinsic_head_brings_trace_cutting_to_all():
    extrinsic, intrinsic = make_heads(("intrinsic",))
    assert extrinsic == Head("extrinsic", "extrinsic", 0.997, True, "all")
    assert intrinsic == Head("intrinsic", "intrinsic", 0.997, True, "recent")


@pytest.mark.parametrize("cut", [True, False])
def test_trace_cutting_can_be_asked_for(cut):
    assert all(head.cut_traces is cut for head in make_heads(["intrinsic"], cut_traces=cut))
    assert all(head.cut_traces is cut for head in make_heads(["twin"], cut_traces=cut))


def test_the_twin_differs_from_the_extrinsic_head_by_name_only():
    extrinsic, twin = make_heads(("twin",), discount=0.9)
    assert twin == extrinsic._replace(name="twin")


def test_only_the_short_head_has_the_short_discount():
    heads = make_heads(("short", "twin"), discount=0.9, short_discount=0.5)
    assert [head.discount for head in heads] == [0.9, 0.5, 0.9]


def test_an_unknown_name_is_refused():
    with pytest.raises(ValueError, match="intrisic"):
        make_heads(("intrisic",))
