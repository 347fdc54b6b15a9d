# SPDX-License-Identifier: MIT
"""Writes a random program from a seed."""

from __future__ import annotations

from collections.abc import Collection

from .control import ControlWriter
from .ops import Operand
from .program import Block, Program, Shape, Statement
from .writer import INPUT_SHAPES, Scope


class Generator(ControlWriter):
    """Writes arrays, gradients of one's own, variables; and the whole."""

    # --- the whole --------------------------------------------------------------------

    def program(self) -> Program:
        inputs = {}
        scope = Scope([])
        for k in range(self.dice.randint(1, 3)):
            shape = self.dice.choice(INPUT_SHAPES)
            name = f"x{k}"
            inputs[name] = self.array(shape)
            self.shapes[name] = shape
            scope.values.append(Operand(name, shape))
        firsts = list(scope.values)
        statements = self.statements(scope, self.dice.randint(2, 9))
        later = scope.values[len(firsts) :] or firsts
        chosen = [scope.values[-1]]
        chosen += self.dice.sample(later, min(len(later), self.dice.randint(0, 3)))
        chosen += self.dice.sample(firsts, self.dice.randint(0, 1))
        chosen += self.also_summed
        self.dice.shuffle(chosen)
        return Program(
            inputs=inputs,
            states=self.states,
            statements=statements,
            terms=[self.term(v.name) for v in chosen],
            shapes=self.shapes,
            traced_only=self.traced_only,
        )

    def term(self, name: str) -> str:
        form = self.dice.choice(
            [
                "tf.reduce_sum({})",
                "tf.reduce_sum({})",
                "tf.reduce_mean({})",
                "tf.reduce_sum(tf.square({}))",
                "tf.reduce_sum(tf.sin({}))",
                "tf.reduce_sum({} * 3.0)",
            ]
        )
        return form.format(name)

    # --- arrays -----------------------------------------------------------------------

    def array_rows(self, scope: Scope) -> list[Statement]:
        """An array of a tensor's rows, read at some places."""
        fitting = [v for v in scope.values if v.shape and v.shape[0] > 0]
        if not fitting:
            return []
        rows = self.dice.choice(fitting[-4:])
        made: list[Statement] = []
        if self.dice.random() < 0.4:
            text = f"{rows.name} + {self.number()}"
            made.append(self.let(scope, "add_number", text, rows.shape))
            rows = scope.values[-1]
        if scope.depth == 0 and self.dice.random() < 0.4:
            self.also_summed.append(rows)
        array = self.name("array")
        parts: list[str | Block] = [
            f"{array} = tf.TensorArray(tf.float64, {rows.shape[0]}, "
            f"clear_after_read=False).unstack({rows.name})"
        ]
        outs = []
        for _ in range(self.dice.randint(1, 3)):
            out = self.value(rows.shape[1:])
            at = str(self.dice.randrange(rows.shape[0]))
            usable = [name for name, bound in scope.counters if bound <= rows.shape[0]]
            if usable and self.dice.random() < 0.7:
                at = self.dice.choice(usable)
            parts.append(f"{out.name} = {array}.read({at})")
            outs.append(out)
        if self.dice.random() < 0.5:
            places = [self.dice.randrange(rows.shape[0]) for _ in range(2)]
            out = self.value((2, *rows.shape[1:]))
            parts.append(f"{out.name} = {array}.gather({places})")
            outs.append(out)
        scope.values += outs
        return [*made, Statement("array_rows", parts, {o.name: o.shape for o in outs})]

    def array_write(self, scope: Scope) -> list[Statement]:
        """An array that a loop writes row by row, then stacked."""
        carried = self.pick(scope)
        inner = scope.inner()
        a = self.value(carried.shape)
        counter, array = self.name("i"), self.name("array")
        turns = self.dice.randint(1, 3)
        inner.values.append(a)
        inner.counters.append((counter, turns))
        row = self.pick(inner).shape
        block, results = self.body(inner, [carried.shape], 3)
        written = self.of_shape(inner, row)
        block.end = (
            f"{array}, {a.name} = {array}.write({counter}, {written}), {results}"
        )
        out = self.value((turns, *row))
        scope.values += [a, out]
        return [
            Statement(
                "array_write",
                [
                    f"{a.name} = {carried.name}",
                    f"{array} = tf.TensorArray(tf.float64, {turns}, "
                    f"element_shape={list(row)})",
                    f"for {counter} in tf.range({turns}):",
                    block,
                    f"{out.name} = {array}.stack()",
                ],
                {a.name: a.shape, out.name: out.shape},
            )
        ]

    # --- gradients of one's own -------------------------------------------------------

    def function(self, scope: Scope) -> tuple[list[Operand], list[Operand], Block, str]:
        """Arguments, parameters, body and result of a function that captures none."""
        arguments = self.carried(scope)
        params = [self.value(v.shape) for v in arguments]
        inner = scope.closed(params)
        statements = self.statements(inner, self.dice.randint(1, 4))
        return arguments, params, Block(statements, ""), self.pick(inner).name

    def recompute(self, scope: Scope) -> list[Statement]:
        arguments, params, block, result = self.function(scope)
        block.end = f"return {result}"
        name = self.name("inner")
        out = self.value(self.shapes[result])
        scope.values.append(out)
        return [
            Statement(
                "recompute",
                [
                    f"def {name}({', '.join(p.name for p in params)}):",
                    block,
                    f"{out.name} = tf.recompute_grad({name})"
                    f"({', '.join(a.name for a in arguments)})",
                ],
                {out.name: out.shape},
            )
        ]

    def custom_taped(self, scope: Scope) -> list[Statement]:
        """A gradient that differentiates, later, what the function computed."""
        arguments, params, block, result = self.function(scope)
        name, tape = self.name("inner"), self.name("tape")
        names = ", ".join(p.name for p in params)
        block.end = "pass"
        held = Statement("tape", [f"with tf.GradientTape(True) as {tape}:", block], {})
        block.statements.insert(0, Statement("watch", [f"{tape}.watch([{names}])"], {}))
        back = (
            f"return tf.identity({result}), lambda dy: {tape}.gradient({result}, "
            f"[{names}], dy, unconnected_gradients='zero')"
        )
        # tensors of their own: a tape tells tensors apart, not parameters
        given = ", ".join(f"tf.identity({a.name})" for a in arguments)
        out = self.value(self.shapes[result])
        scope.values.append(out)
        return [
            Statement(
                "custom_taped",
                [
                    "@tf.custom_gradient",
                    f"def {name}({names}):",
                    Block([held], back),
                    f"{out.name} = {name}({given})",
                ],
                {out.name: out.shape},
            )
        ]

    def custom_known(self, scope: Scope) -> list[Statement]:
        argument = self.pick(scope)
        param, out, name = (
            self.name("p"),
            self.value(argument.shape),
            self.name("inner"),
        )
        forward, backward = self.dice.choice(
            [
                (f"tf.sin({param})", f"dy * tf.cos({param})"),
                (f"2.0 * {param}", "2.0 * dy"),
                (f"{param} * {param}", f"dy * {param} + {param} * dy"),
                (f"tf.identity({param})", "dy"),
            ]
        )
        scope.values.append(out)
        return [
            Statement(
                "custom_known",
                [
                    "@tf.custom_gradient",
                    f"def {name}({param}):",
                    Block([], f"return {forward}, lambda dy: {backward}"),
                    f"{out.name} = {name}({argument.name})",
                ],
                {out.name: out.shape},
            )
        ]

    # --- variables --------------------------------------------------------------------

    def state(self) -> tuple[str, Shape]:
        if self.states and self.dice.random() < 0.6:
            name = self.dice.choice(list(self.states))
        else:
            name = self.name("state")
            self.shapes[name] = self.dice.choice(INPUT_SHAPES[:5])
            self.states[name] = self.array(self.shapes[name])
        return name, self.shapes[name]

    def state_read(self, scope: Scope) -> list[Statement]:
        if scope.is_function:
            return []
        name, shape = self.state()
        return [self.let(scope, "state_read", f"tf.cast({name}, tf.float64)", shape)]

    def state_write(self, scope: Scope) -> list[Statement]:
        """Of what no input has a part in: differences of rounded numbers say little."""
        if scope.is_function:
            return []
        name, _ = self.state()
        change = self.dice.choice(
            [
                f"{name}.assign(0.5 * {name})",
                f"{name}.assign_add(tf.ones_like({name}))",
                f"{name}.assign_sub({name} * {name})",
                f"{name}.assign(tf.sqrt(tf.abs({name}) + 1.0) - 0.5 * {name})",
            ]
        )
        return [Statement("state_write", [change], {})]

    def made_variable(self, scope: Scope) -> list[Statement]:
        """A variable that the first call makes, from what was differentiated before."""
        if scope.is_function or scope.depth:
            return []
        base, tape, result = self.name("base"), self.name("tape"), self.name("turned")
        key, out = self.name("key"), self.value(())
        scope.values.append(out)
        turns = self.dice.randint(1, 3)
        body = self.dice.choice(["a * 4.0", "a * a", "tf.sin(a)"])
        return [
            Statement(
                "made_variable",
                [
                    f"{base} = tf.constant({self.dice.randint(1, 4)}.0, tf.float64)",
                    f"with tf.GradientTape() as {tape}:",
                    Block(
                        [
                            Statement("watch", [f"{tape}.watch({base})"], {}),
                        ],
                        f"{result} = tf.while_loop(lambda i, a: i < {turns}, "
                        f"lambda i, a: (i + 1, {body}), [tf.constant(0), {base}])[1]",
                    ),
                    f"{tape}.gradient({result}, {base})",
                    f"if {key!r} not in made:",
                    Block(
                        [],
                        f"made[{key!r}] = tf.Variable("
                        f"tf.cast({result} * 5.0, tf.float32))",
                    ),
                    f"{out.name} = tf.cast(made[{key!r}], tf.float64) * 0.01",
                ],
                {out.name: ()},
            )
        ]


def generate(seed: int, avoid: Collection[str] = ()) -> Program:
    """The program of a seed, without the constructions named in `avoid`."""
    return Generator(seed, avoid).program()
