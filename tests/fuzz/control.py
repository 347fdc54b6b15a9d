# SPDX-License-Identifier: MIT
"""Loops and branches of random programs."""

from __future__ import annotations

from .ops import Operand
from .program import Block, Shape, Statement
from .writer import Scope, Writer


class ControlWriter(Writer):
    """Writes blocks: each method gives one construction and adds what it computes."""

    # --- loops ------------------------------------------------------------------------

    def turning(
        self, scope: Scope
    ) -> tuple[list[Operand], list[Operand], Scope, str, str]:
        """What a loop starts from, what it carries, its scope, counter and turns."""
        start = self.carried(scope)
        inner = scope.inner()
        params = [self.value(v.shape) for v in start]
        counter, turns = self.name("i"), self.turns()
        inner.values += params
        inner.counters.append((counter, int(turns)))
        return start, params, inner, counter, turns

    def while_loop(self, scope: Scope) -> list[Statement]:
        start, params, inner, counter, turns = self.turning(scope)
        body = self.name("body")
        block, results = self.body(inner, [p.shape for p in params], 4)
        block.end = f"return {counter} + 1, {results}"
        names = ", ".join(p.name for p in params)
        test = f"{counter} < {turns}"
        if self.dice.random() < 0.3:
            test = f"({test}) & (tf.reduce_sum({params[0].name}) < 5.0)"
        elif self.dice.random() < 0.2:
            limit = f"tf.where({self.predicate(scope)}, {turns}, {self.turns()})"
            test = f"({counter} < {limit}) & ({test})"
        outs = [self.value(v.shape) for v in start]
        scope.values += outs
        begin = ", ".join(v.name for v in start)
        left = ", ".join(["_", *(o.name for o in outs)])
        return [
            Statement(
                "while_loop",
                [
                    f"def {body}({counter}, {names}):",
                    block,
                    f"{left} = tf.while_loop(lambda {counter}, {names}: {test}, "
                    f"{body}, [tf.constant(0), {begin}], maximum_iterations=3)",
                ],
                {o.name: o.shape for o in outs},
            )
        ]

    def counted_loop(self, scope: Scope) -> list[Statement]:
        """`for` over `tf.range`, converted by AutoGraph."""
        start, names, inner, counter, turns = self.turning(scope)
        block, results = self.body(inner, [v.shape for v in start], 4)
        left = ", ".join(v.name for v in names)
        block.end = f"{left} = {results}"
        scope.values += names
        return [
            Statement(
                "counted_loop",
                [
                    f"{left} = {', '.join(v.name for v in start)}",
                    f"for {counter} in tf.range({turns}):",
                    block,
                ],
                {v.name: v.shape for v in names},
            )
        ]

    def python_while(self, scope: Scope) -> list[Statement]:
        """A `while` that AutoGraph converts; its counter bounds it."""
        start, names, inner, counter, turns = self.turning(scope)
        block, results = self.body(inner, [v.shape for v in start], 3)
        left = ", ".join(v.name for v in names)
        block.end = f"{left}, {counter} = {results}, {counter} + 1"
        scope.values += names
        return [
            Statement(
                "python_while",
                [
                    f"{left} = {', '.join(v.name for v in start)}",
                    f"{counter} = tf.constant(0)",
                    f"while {counter} < {turns}:",
                    block,
                ],
                {v.name: v.shape for v in names},
            )
        ]

    def repeat(self, scope: Scope) -> list[Statement]:
        """`loops.repeat`, which exists in functions alone."""
        if scope.is_function or self.dice.random() < 0.5:
            return self.while_loop(scope) if "while_loop" not in self.avoid else []
        self.traced_only = True
        start = self.carried(scope)
        inner = scope.inner()
        params = [self.value(v.shape) for v in start]
        body = self.name("body")
        inner.values += params
        block, results = self.body(inner, [p.shape for p in params], 4)
        block.end = f"return {results}"
        outs = [self.value(v.shape) for v in start]
        scope.values += outs
        left = ", ".join(o.name for o in outs)
        begin = ", ".join(v.name for v in start)
        return [
            Statement(
                "repeat",
                [
                    f"def {body}({', '.join(p.name for p in params)}):",
                    block,
                    f"{left} = loops.repeat({self.turns()}, {body}, [{begin}])",
                ],
                {o.name: o.shape for o in outs},
            )
        ]

    def with_rows(self, scope: Scope) -> tuple[str, Shape]:
        """A tensor with rows, at times with none, and a row's shape."""
        fitting = [v for v in scope.values if v.shape]
        if not fitting:
            value = self.pick(scope)
            return f"tf.stack([{value.name}, 2.0 * {value.name}])", value.shape
        value = self.dice.choice(fitting[-4:])
        if "zero_turns" not in self.avoid and self.dice.random() < 0.1:
            return f"{value.name}[:0]", value.shape[1:]
        return value.name, value.shape[1:]

    def scan(self, scope: Scope) -> list[Statement]:
        rows, shape = self.with_rows(scope)
        start = self.pick(scope)
        inner = scope.inner()
        a, row = self.value(start.shape), self.value(shape)
        body = self.name("body")
        inner.values += [a, row]
        block, results = self.body(inner, [start.shape], 3)
        block.end = f"return {results}"
        out = self.name()
        count = f"({rows}).shape[0]"
        reverse = self.dice.choice(["", ", reverse=True"])
        summed = self.value(start.shape)
        scope.values.append(summed)
        return [
            Statement(
                "scan",
                [
                    f"def {body}({a.name}, {row.name}):",
                    block,
                    f"{out} = tf.scan({body}, {rows}, {start.name}{reverse})",
                    f"{summed.name} = tf.reduce_sum({out}, axis=0) if {count} else "
                    f"{start.name}",
                ],
                {summed.name: summed.shape},
            )
        ]

    def map_rows(self, scope: Scope) -> list[Statement]:
        fitting = [v for v in scope.values if v.shape]
        if not fitting:
            return []
        rows = self.dice.choice(fitting[-4:])
        inner = scope.inner()
        row = self.value(rows.shape[1:])
        body = self.name("body")
        inner.values.append(row)
        result = self.pick(inner).shape
        block, results = self.body(inner, [result], 3)
        block.end = f"return {results}"
        out = self.value((rows.shape[0], *result))
        scope.values.append(out)
        return [
            Statement(
                "map_rows",
                [
                    f"def {body}({row.name}):",
                    block,
                    f"{out.name} = tf.map_fn({body}, {rows.name})",
                ],
                {out.name: out.shape},
            )
        ]

    def fold(self, scope: Scope) -> list[Statement]:
        rows, shape = self.with_rows(scope)
        start = self.pick(scope)
        inner = scope.inner()
        a, row = self.value(start.shape), self.value(shape)
        body = self.name("body")
        inner.values += [a, row]
        block, results = self.body(inner, [start.shape], 3)
        block.end = f"return {results}"
        out = self.value(start.shape)
        scope.values.append(out)
        which = self.dice.choice(["foldl", "foldr"])
        return [
            Statement(
                "fold",
                [
                    f"def {body}({a.name}, {row.name}):",
                    block,
                    f"{out.name} = tf.{which}({body}, {rows}, {start.name})",
                ],
                {out.name: out.shape},
            )
        ]

    # --- branches ---------------------------------------------------------------------

    def branch(
        self, scope: Scope, shapes: list[Shape], prefix: str
    ) -> tuple[str, Block]:
        inner = scope.inner()
        name = self.name(prefix)
        block, results = self.body(inner, shapes, 3)
        block.end = f"return [{results}]"
        return name, block

    def cond(self, scope: Scope) -> list[Statement]:
        shapes = [v.shape for v in self.carried(scope)]
        yes, first = self.branch(scope, shapes, "yes")
        no, second = self.branch(scope, shapes, "no")
        predicate = self.predicate(scope)
        outs = [self.value(s) for s in shapes]
        scope.values += outs
        left = ", ".join(o.name for o in outs)
        return [
            Statement(
                "cond",
                [
                    f"def {yes}():",
                    first,
                    f"def {no}():",
                    second,
                    f"[{left}] = tf.cond({predicate}, {yes}, {no})",
                ],
                {o.name: o.shape for o in outs},
            )
        ]

    def switch_case(self, scope: Scope) -> list[Statement]:
        shapes = [v.shape for v in self.carried(scope)]
        parts: list[str | Block] = []
        names = []
        for _ in range(self.dice.randint(1, 3)):
            name, block = self.branch(scope, shapes, "case")
            names.append(name)
            parts += [f"def {name}():", block]
        index = str(self.dice.randint(0, 2))
        if scope.counters:
            index = self.dice.choice(scope.counters)[0]
        elif self.dice.random() < 0.5:
            index = f"tf.cast({self.predicate(scope)}, tf.int32)"
        outs = [self.value(s) for s in shapes]
        scope.values += outs
        left = ", ".join(o.name for o in outs)
        parts.append(f"[{left}] = tf.switch_case({index}, [{', '.join(names)}])")
        return [Statement("switch_case", parts, {o.name: o.shape for o in outs})]

    def python_if(self, scope: Scope) -> list[Statement]:
        value = self.pick(scope)
        out = self.value(value.shape)
        first, one = self.body(scope.inner(), [value.shape], 3)
        second, other = self.body(scope.inner(), [value.shape], 2)
        first.end, second.end = f"{out.name} = {one}", f"{out.name} = {other}"
        predicate = self.predicate(scope)
        scope.values.append(out)
        parts: list[str | Block] = [f"if {predicate}:", first, "else:", second]
        return [Statement("python_if", parts, {out.name: out.shape})]

    def index(self, scope: Scope) -> list[Statement]:
        """A place that the program computes: 0 or 1, or up to 2."""
        name, bound = self.name("n"), self.dice.randint(2, 3)
        parts = [
            f"tf.cast({self.predicate(scope)}, tf.int32)" for _ in range(bound - 1)
        ]
        scope.counters.append((name, bound))
        return [Statement("index", [f"{name} = {' + '.join(parts)}"], {name: ()})]
