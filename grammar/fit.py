"""A shape to the largest copy within the server's limits: a finite copy spells nothing that is refused for its size."""

from collections.abc import Mapping

from guideway.dsl.ast import Target
from guideway.dsl.parser import Limits
from guideway.grammar.measure import longest, most_commands
from guideway.grammar.model import Grammar
from guideway.grammar.names import Names
from guideway.grammar.spell import Layout, Shape, spell


def fit(
    grammar: Grammar, names: Mapping[Target, Names], shape: Shape, layout: Layout, limits: Limits
) -> tuple[Grammar, Shape]:
    """Return the spelled grammar of the largest shape within the limits, and that shape: as deep, perhaps less long.

    A shape without a most of statements is bounded in its nesting alone. Raises ``ValueError`` for a shape that is too
    deep, or negative.
    """
    if not 0 <= shape.nesting <= limits.nesting or (shape.statements is not None and shape.statements < 1):
        raise ValueError(f"programs nest 0 to {limits.nesting} deep, and have a statement")
    spellings = {kind.value: found for kind, found in names.items()}
    for statements in (None,) if shape.statements is None else range(shape.statements, 0, -1):
        smaller = Shape(shape.nesting, statements)
        spelled = spell(grammar, spellings, smaller, layout)
        most, commands = longest(spelled), most_commands(spelled)
        if (most is None or most <= limits.bytes) and (commands is None or commands <= limits.commands):
            return spelled, smaller
    raise ValueError(f"programs that nest {shape.nesting} deep can be larger than the limits allow")
