"""Records and nodes: frozen, equal by class and meaning, and nothing but their fields."""

import copy
import pickle
from typing import ClassVar

import pytest
from hypothesis import given, settings

from guideway.dsl import Code, Diagnostic, Limits, Refusal, parse
from guideway.dsl.ast import COMMANDS, Block, Command, GetStatus, IfRunning, Node, Ping, Program, Restart, walk
from guideway.dsl.record import Record
from guideway.dsl.source import Position, Source, Span
from tests.strategies import Script, block, program, scripts


class Point(Record):
    kind: ClassVar[str] = "point"

    x: int
    y: int = 0


class Tall(Point):
    z: int = 0


def test_fields_are_given_by_place_or_by_name() -> None:
    assert (Point(1, 2).x, Point(1, 2).y) == (1, 2)
    assert Point(1) == Point(1, 0) == Point(x=1) == Point(y=0, x=1)
    assert Tall(1, 2, 3) == Tall(1, z=3, y=2)
    assert Point.kind == "point"


def test_wrong_fields_are_named() -> None:
    make: type = Point
    with pytest.raises(TypeError, match="Point needs the field 'x'"):
        make()
    with pytest.raises(TypeError, match="Point takes 2 fields, not 3"):
        make(1, 2, 3)
    with pytest.raises(TypeError, match="Point cannot take colour, z"):
        make(1, z=1, colour=2)
    with pytest.raises(TypeError, match="Point cannot take x"):
        make(1, x=2)


def test_records_are_equal_by_class_and_fields() -> None:
    assert Point(1, 2) != Tall(1, 2, 0)
    assert Point(1, 2) != (1, 2)
    assert Span(1, 2) != Position(1, 2)
    assert len({Point(1, 2), Point(1, 2), Span(1, 2), (1, 2)}) == 3


@pytest.mark.parametrize("record", [Point(1), Span(1, 2), Limits(), Ping(0, 8, 8, "a"), parse('PING "a"')], ids=repr)
def test_records_are_frozen_and_carry_nothing_else(record: Record) -> None:
    for name in (*type(record)._fields, "anything"):
        with pytest.raises(AttributeError):
            setattr(record, name, 1)
        with pytest.raises(AttributeError):
            delattr(record, name)
    assert not hasattr(record, "__dict__")


def test_a_record_prints_as_what_makes_it() -> None:
    point = Tall(1, z=3)
    assert repr(point) == "Tall(x=1, y=0, z=3)"
    assert eval(repr(Limits(bytes=9))) == Limits(bytes=9)  # noqa: S307  # its own text


def test_a_copy_with_changes() -> None:
    assert Tall(1, 2, 3).replace(y=5) == Tall(1, 5, 3)
    with pytest.raises(TypeError, match="cannot take w"):
        Tall(1).replace(w=1)


def test_records_are_matched_by_their_fields() -> None:
    match parse('IF_RUNNING "a" THEN { PING "b" }').statements:
        case (IfRunning(target="a", then=Block(statements=(Ping(target=name),)), otherwise=None),):
            assert name == "b"
        case other:
            pytest.fail(repr(other))
    match Point(3, 4):
        case Point(x, y):
            assert (x, y) == (3, 4)


def test_nodes_are_equal_when_they_mean_the_same() -> None:
    assert Ping(0, 8, 8, "a") == Ping(5, 13, 13, "a")
    assert hash(Ping(0, 8, 8, "a")) == hash(Ping(5, 13, 13, "a"))
    assert Ping(0, 8, 8, "a") != Ping(0, 8, 8, "b")
    assert Ping(0, 8, 8, "a") != GetStatus(0, 8, 8, "a") != Restart(0, 8, 8, "a")
    assert block() != program()
    assert parse('PING "a"', name="one") == parse(' PING  "a" # why', name="two")
    assert parse('PING "a"') != parse('{ PING "a" }')
    assert parse('TRY PING "a" CATCH { }') == parse('TRY { PING "a" } CATCH { }')
    assert parse('TRY PING "a" CATCH { }') != parse('TRY { { PING "a" } } CATCH { }')


@given(scripts())
@settings(max_examples=40)
def test_trees_survive_copies_and_pickles(script: Script) -> None:
    tree = parse(script.text, limits=Limits(bytes=1_000_000))
    for again in (copy.copy(tree), copy.deepcopy(tree), pickle.loads(pickle.dumps(tree))):  # noqa: S301  # its own
        assert again == tree
        assert tuple(again) == tuple(tree)
        assert [node.span for node in walk(again)] == [node.span for node in walk(tree)]
        assert [type(node) for node in walk(again)] == [type(node) for node in walk(tree)]


def test_a_refusal_survives_copies_and_pickles() -> None:
    with pytest.raises(Refusal) as caught:
        parse("ping")
    refusal = caught.value
    for again in (copy.copy(refusal), pickle.loads(pickle.dumps(refusal))):  # noqa: S301  # its own
        assert again.to_json() == refusal.to_json()
        assert str(again) == str(refusal)
    assert refusal.code is Code.SYNTAX
    assert isinstance(refusal.diagnostics[0], Diagnostic)


def test_every_class_of_nodes_has_slots_alone() -> None:
    classes: list[type[Node]] = [Node]
    for each in classes:
        classes += each.__subclasses__()
        assert each.__dict__.get("__slots__") == ()
    assert {*COMMANDS, Program, Command} < {*classes}


def test_a_source_is_named() -> None:
    assert parse('PING "a"', name="runbook.diag").source == Source('PING "a"', "runbook.diag")
