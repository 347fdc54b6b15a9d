# SPDX-License-Identifier: MIT
"""Programs of TensorFlow 1: each is put together in a graph of its own and run there.

A program of the table begins with ``== area: name``; what its last line gives is
compared. It sees ``tf``, which is ``compat.v1``, NumPy, and the helpers of `program`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import numpy as np

PROGRAMS = """
== tf1 momentum: a fed rate
w, r = V(1.), P([])
step = tf.train.MomentumOptimizer(r, .9).minimize(w * w)
[S([step, w], {r: x}) and S(w) for x in (.1, .01, .5)]

== tf1 momentum: a rate that decays
w, n = V(1.), tf.train.get_or_create_global_step()
rate = tf.train.exponential_decay(.5, n, 1, .5)
step = tf.train.MomentumOptimizer(rate, .9).minimize(w * w, global_step=n)
[S(step) or S(w) for _ in range(5)]

== tf1 momentum: nesterov, a fed rate
w, r = V([1., -2.]), P([])
step = tf.train.MomentumOptimizer(r, .9, use_nesterov=True).minimize(sum_of(w * w))
[S(step, {r: x}) or S(w) for x in (.1, .01, .5, 0.)]

== tf1 momentum: a rate of zero keeps the slot
w, r = V(1.), P([])
opt = tf.train.MomentumOptimizer(r, .5)
step = opt.minimize(3. * w)
[S(step, {r: x}) or S([w, opt.get_slot(w, "momentum")]) for x in (0., 1.)]

== tf1 momentum: a momentum that is a tensor
w, m = V(1.), P([])
step = tf.train.MomentumOptimizer(.1, m).minimize(w * w)
[S(step, {m: x}) or S(w) for x in (.9, .1, 0.)]

== tf1 sparse: momentum
w = V(np.ones((4, 2)))
step = tf.train.MomentumOptimizer(.1, .9).minimize(sum_of(tf.gather(w, I)))
[S(step, {I: i}) or S(w) for i in ([1, 3], [1, 1], [0, 2])]

== tf1 sparse: nesterov
w = V(np.ones((4, 2)))
opt = tf.train.MomentumOptimizer(.1, .9, use_nesterov=True)
step = opt.minimize(sum_of(tf.nn.embedding_lookup(w, I) ** 2))
[S(step, {I: i}) or S(w) for i in ([1, 3], [1, 1], [0, 2])]

== tf1 sparse: rmsprop
w = V(np.ones((4, 2)))
opt = tf.train.RMSPropOptimizer(.1)
step = opt.minimize(sum_of(tf.gather(w, I) ** 2))
[S(step, {I: i}) or S([w, opt.get_slot(w, "rms")]) for i in ([1, 3], [1, 1], [0])]

== tf1 sparse: rmsprop with momentum
w = V(np.ones((4, 2)))
opt = tf.train.RMSPropOptimizer(.1, momentum=.9)
step = opt.minimize(sum_of(tf.gather(w, I) ** 2))
[S(step, {I: i}) or S(w) for i in ([1, 3], [1, 1], [0])]

== tf1 sparse: rmsprop centered
w = V(np.ones((4, 2)))
opt = tf.train.RMSPropOptimizer(.1, centered=True, momentum=.5)
step = opt.minimize(sum_of(tf.gather(w, I) ** 2))
[S(step, {I: i}) or S(w) for i in ([1, 3], [1, 1], [0])]

== tf1 sparse: adam
w = V(np.ones((4, 2)))
step = tf.train.AdamOptimizer(.1).minimize(sum_of(tf.gather(w, I) ** 2))
[S(step, {I: i}) or S(w) for i in ([1, 3], [1, 1], [0])]

== tf1 sparse: descent
w = V(np.ones((4, 2)))
step = tf.train.GradientDescentOptimizer(.1).minimize(sum_of(tf.gather(w, I) ** 2))
[S(step, {I: i}) or S(w) for i in ([1, 3], [1, 1], [0])]

== tf1 sparse: a table that is also used as a whole
w = V(np.ones((4, 2)))
opt = tf.train.MomentumOptimizer(.1, .9)
step = opt.minimize(sum_of(tf.gather(w, I) ** 2) + sum_of(w * w))
[S(step, {I: i}) or S(w) for i in ([1, 3], [1, 1], [0])]

== tf1 sparse: looked up twice
w = V(np.ones((4, 2)))
opt = tf.train.MomentumOptimizer(.1, .9)
step = opt.minimize(sum_of(tf.gather(w, I) ** 2) + sum_of(tf.gather(w, [3, 3])))
[S(step, {I: i}) or S(w) for i in ([1, 2], [1, 1], [0])]

== tf1 sparse: clipped by value
w = V(np.ones((4, 2)))
opt = tf.train.MomentumOptimizer(.1, .9)
pairs = opt.compute_gradients(sum_of(tf.gather(w, I) ** 2))
step = opt.apply_gradients([(tf.clip_by_value(g, -1.5, 1.5), v) for g, v in pairs])
[S(step, {I: i}) or S(w) for i in ([1, 3], [1, 1], [0])]

== tf1 sparse: clipped by the norm of all, repeated rows
w, u = V(np.ones((4, 2))), V([3.])
g = tf.gradients(sum_of(tf.gather(w, I) ** 2) + sum_of(u * u), [w, u])
clipped, norm = tf.clip_by_global_norm(g, 1.)
S([norm, tf.convert_to_tensor(clipped[0]), clipped[1]], {I: [1, 1, 2]})

== tf1 sparse: clip_by_norm, repeated rows
w = V(np.ones((4, 2)))
g = tf.gradients(sum_of(tf.gather(w, I) ** 2), [w])
S(tf.convert_to_tensor(tf.clip_by_norm(g[0], 1.)), {I: [1, 1, 2]})

== tf1 sparse: clipped by the norm of all, then momentum
w, u = V(np.ones((4, 2))), V([3.])
opt = tf.train.MomentumOptimizer(.1, .9)
g, v = zip(*opt.compute_gradients(sum_of(tf.gather(w, I) ** 2) + sum_of(u * u)))
g, norm = tf.clip_by_global_norm(g, 1.)
step = opt.apply_gradients(zip(g, v))
[S([step, norm], {I: i})[1] and S([w, u]) for i in ([1, 3], [1, 1], [0])]

== tf1 optimizers: rmsprop with a fed rate
w, r = V([1., -2.]), P([])
opt = tf.train.RMSPropOptimizer(r, momentum=.9)
step = opt.minimize(sum_of(w * w))
[S(step, {r: x}) or S(w) for x in (.1, .01, .5)]

== tf1 optimizers: adam with a fed rate
w, r = V([1., -2.]), P([])
step = tf.train.AdamOptimizer(r).minimize(sum_of(w * w))
[S(step, {r: x}) or S(w) for x in (.1, .01, .5)]

== tf1 optimizers: a rate that is a constant, fed
w, r = V(1.), tf.constant(.1)
step = tf.train.GradientDescentOptimizer(r).minimize(w * w)
[S(step, {r: x}) or S(w) for x in (.5, .25)] + [S(step) or S(w)]

== tf1 optimizers: a rate that is a variable, assigned
w, r = V(1.), V(.1, trainable=False)
step = tf.train.GradientDescentOptimizer(r).minimize(w * w)
[S(step) or S(w), S(r.assign(.5)), S(step) or S(w)]

== tf1 optimizers: a rate that is a variable, fed
w, r = V(1.), V(.1, trainable=False)
step = tf.train.GradientDescentOptimizer(r).minimize(w * w)
[S(step, {r: .5}) or S(w)]

== tf1 optimizers: adam counts its updates
w = V([1., 2.])
step = tf.train.AdamOptimizer(.1).minimize(sum_of(w ** 3))
[S(step) or S(w) for _ in range(4)]

== tf1 optimizers: the names of slots
w, u = V(1.), V(2.)
for opt in (tf.train.MomentumOptimizer(.1, .9), tf.train.RMSPropOptimizer(.1)):
    opt.minimize(w * u)
[opt.get_slot_names(), opt.get_name()]

== tf1 optimizers: a step that is counted
w, n = V(1.), tf.train.get_or_create_global_step()
step = tf.train.GradientDescentOptimizer(.1).minimize(w * w, global_step=n)
[S(step) or S([w, n]) for _ in range(3)]

== tf1 optimizers: gradients that are changed on the way
w, u = V(1.), V(4.)
opt = tf.train.GradientDescentOptimizer(.1)
pairs = opt.compute_gradients(w * u, [w, u])
step = opt.apply_gradients([(tf.clip_by_value(g, -1., 1.), v) for g, v in pairs])
S(step) or S([w, u])

== tf1 optimizers: a loss that is a variable
w = V(1.)
step = tf.train.GradientDescentOptimizer(.1).minimize(w)
S(step) or S(w)

== tf1 optimizers: no gradient for one
w, u = V(1.), V(2.)
step = tf.train.GradientDescentOptimizer(.1).minimize(w * 3.)
S(step) or S([w, u])

== tf1 optimizers: no gradient for any
w, u = V(1.), V(2.)
tf.train.GradientDescentOptimizer(.1).minimize(tf.constant(1.))

== tf1 optimizers: grad_loss
w = V([1., 2.])
opt = tf.train.GradientDescentOptimizer(.1)
step = opt.minimize(w * w, grad_loss=tf.constant([1., 10.]))
S(step) or S(w)

== tf1 optimizers: a constraint
w = tf.get_variable("w", initializer=1., constraint=lambda x: tf.maximum(x, .95))
step = tf.train.GradientDescentOptimizer(.1).minimize(w * w)
S(step) or S(w)

== tf1 optimizers: aggregation methods
w = V(2.)
opt = tf.train.GradientDescentOptimizer(.1)
step = opt.minimize(w * w + w, aggregation_method=2, gate_gradients=0)
S(step) or S(w)

== tf1 gradients: stop_gradients at an intermediate
a = tf.constant(0.)
b = 2 * a
S(tf.gradients(a + b, [a, b], stop_gradients=[a, b]))

== tf1 gradients: stop_gradients cuts the path
w = V(3.)
y = w * w
S(tf.gradients(w + y * y, [w], stop_gradients=[y]))

== tf1 gradients: without stop_gradients
w = V(3.)
y = w * w
S(tf.gradients(w + y * y, [w]))

== tf1 gradients: stop_gradients of a variable's read
w = V(3.)
x = tf.identity(w)
S([g if g is not None else tf.constant(-1.) for g in
   tf.gradients(x * w, [w], stop_gradients=[x])])

== tf1 gradients: stop_gradients that leaves none
w = V(3.)
y = w * w
tf.gradients(y * y, [w], stop_gradients=[y])

== tf1 gradients: a variable among the ys
w = V(2.)
S(tf.gradients([w, w * w], [w]))

== tf1 gradients: of a variable by itself
w = V(2.)
S(tf.gradients(w, w))

== tf1 gradients: of a variable by another
w, u = V(2.), V(3.)
tf.gradients(w, u)

== tf1 gradients: of a tensor by itself
x = tf.constant([2., 3.])
S(tf.gradients(x, x))

== tf1 gradients: of several by several
w, u = V(2.), V(3.)
S(tf.gradients([w * u, w * w], [w, u]))

== tf1 gradients: grad_ys
w = V([2., 3.])
S(tf.gradients([w * w, w], [w], grad_ys=[tf.constant([1., 2.]), tf.constant([5., 7.])]))

== tf1 gradients: grad_ys that are fed
w, g = V([2., 3.]), P([2])
S(tf.gradients(w * w, [w], grad_ys=g), {g: [3., 4.]})

== tf1 gradients: grad_ys with None
w = V([2., 3.])
S(tf.gradients([w * w, w], [w], grad_ys=[None, tf.constant([5., 7.])]))

== tf1 gradients: unconnected, none
w, u = V(2.), V([3., 1.])
tf.gradients(w * w, [u])

== tf1 gradients: unconnected, zero
w, u = V(2.), V([3., 1.])
S(tf.gradients(w * w, [w, u], unconnected_gradients="zero"))

== tf1 gradients: unconnected behind stop_gradient
w = V(2.)
S(tf.gradients(tf.stop_gradient(w) * 2., [w], unconnected_gradients="zero"))

== tf1 gradients: by an intermediate
w = V(2.)
y = w * w
S(tf.gradients(y * y + w, [y, w]))

== tf1 gradients: of a gradient
w = V(2.)
g = tf.gradients(w ** 3, w)[0]
S(tf.gradients(g, w))

== tf1 gradients: hessians
w = V([1., 2.])
g = tf.gradients(sum_of(w ** 3), w)[0]
S([tf.gradients(g[i], w)[0] for i in range(2)])

== tf1 gradients: by a placeholder
x = P([None, 2])
S(tf.gradients(sum_of(x * x), x), {x: [[1., 2.], [3., 4.]]})

== tf1 gradients: through a condition
w = V(2.)
y = tf.cond(w > 1., lambda: w * w, lambda: w)
S(tf.gradients(y, w))

== tf1 gradients: through a loop
w = V(2.)
_, y = tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * w), [0, w])
S([y, tf.gradients(y, w)[0]])

== tf1 gradients: through gather, as rows
w = V(np.ones((3, 2)))
S(tf.convert_to_tensor(tf.gradients(sum_of(tf.gather(w, [1, 1])), w)[0]))

== tf1 gradients: of integers
i = tf.constant(3)
tf.gradients(i * i, i)

== tf1 gradients: at a fed intermediate
w = V(2.)
y = w * w
S(tf.gradients(y * y, [y]), {y: 5.})

== tf1 gradients: behind a fed intermediate
w = V(2.)
y = w * w
S(tf.gradients(y * y, [w]), {y: 5.})

== tf1 gradients: behind two fed intermediates, and without
w, u = V(2.), V(3.)
y = w * w
z = y * u
g = tf.gradients(z * z + y, [w, u])
[S(g, {y: 5.}), S([*g, z], {z: 7.}), S(g, {y: 5., z: 7.}), S(g)]

== tf1 gradients: custom
@tf.custom_gradient
def f(x):
    return x * x, lambda dy: dy * 10.
w = V(2.)
S(tf.gradients(f(w.read_value()), w))

== tf1 feeds: a constant
i = tf.constant(3)
[S(i + 1), S(i + 1, {i: 7})]

== tf1 feeds: a float constant
x = tf.constant([1., 2.])
[S(x * 2., {x: [5., 6.]}), S(x * 2.)]

== tf1 feeds: a constant that is a size
n = tf.constant(3)
[S(tf.zeros([n]) + 1.), S(tf.shape(tf.fill(tf.stack([n, 2]), 1.)))]

== tf1 feeds: an axis of a range
n = tf.constant(3)
[S(tf.range(n)), S(tf.range(n), {n: 5})]

== tf1 feeds: a variable
v = V(1.)
[S(v * 2., {v: 10.}), S(v * 2.)]

== tf1 feeds: a variable that is not a resource
v = tf.Variable(2., use_resource=False)
y = v * 2.
[S([y, v], {v: 10.}), S([y, v, tf.gradients(v * y, v)[0]], {v: 3.}), S(y)]

== tf1 feeds: a rate that is a variable and no resource
w, r = V(1.), tf.Variable(.1, use_resource=False, trainable=False)
step = tf.train.GradientDescentOptimizer(r).minimize(w * w)
[S(step, {r: .5}) or S(w), S(step) or S(w)]

== tf1 feeds: a variable that has no value
v = V(1.)
R(v * 2., {v: 10.})

== tf1 feeds: a variable, of another shape
v = V([1., 2.])
S(v * 2., {v: 10.})

== tf1 feeds: the read of a variable
v = V(1.)
x = v.read_value()
S([x * 2., v * 2.], {x: 10.})

== tf1 feeds: an intermediate
w = V(2.)
y = w * w
S([y + 1., w * 3.], {y: 10.})

== tf1 feeds: what is fed is fetched
x = tf.constant(2)
S([x, x + 1], {x: 10})

== tf1 feeds: a size
x = P([None, 2])
n = tf.shape(x)[0]
[S(n * 2, {x: np.zeros((3, 2))}), S(n * 2, {n: 7})]

== tf1 feeds: too large for int32
i = P([], tf.int32)
S(i + 1, {i: 2**40})

== tf1 feeds: too large for int32, a list
i = P([2], tf.int32)
S(i + 1, {i: [1, 2**40]})

== tf1 feeds: too small for int8
i = P([], tf.int8)
S(i, {i: -300})

== tf1 feeds: negative for uint8
i = P([], tf.uint8)
S(i, {i: -1})

== tf1 feeds: an array of int64 for int32
i = P([], tf.int32)
S(i, {i: np.int64(2**33 + 5)})

== tf1 feeds: a float for an integer
i = P([], tf.int32)
S(i, {i: 1.5})

== tf1 feeds: an integer for a float
x = P([])
S(x, {x: 3})

== tf1 feeds: a large float
x = P([])
S(x, {x: 1e300})

== tf1 feeds: a bool
x = P([], tf.bool)
S(tf.logical_not(x), {x: True})

== tf1 feeds: the wrong shape
x = P([2])
S(x, {x: [1., 2., 3.]})

== tf1 feeds: by name
x = tf.placeholder(tf.float32, [], name="x")
S("x:0", {"x:0": 4.})

== tf1 feeds: a tensor
x = P([])
S(x, {x: tf.constant(1.)})

== tf1 feeds: nothing
x = P([])
S(x * 2.)

== tf1 feeds: placeholder_with_default
x = tf.placeholder_with_default(.5, [])
[S(x * 2.), S(x * 2., {x: 4.})]

== tf1 feeds: text
x = P([], tf.string)
S(x, {x: b"abc"})

== tf1 feeds: a learning rate of a schedule
n = tf.train.get_or_create_global_step()
S(tf.train.exponential_decay(1., n, 10, .5, staircase=True), {n: 25})

== tf1 feeds: an operation
S(tf.constant(1.), {tf.no_op(): 1.})

== tf1 iterators: two sessions have two positions
d = tf.data.make_one_shot_iterator(tf.data.Dataset.range(5)).get_next()
a, b = tf.Session(), tf.Session()
[a.run(d), a.run(d), b.run(d), a.run(d), b.run(d)]

== tf1 iterators: initialised in each session
it = tf.data.make_initializable_iterator(tf.data.Dataset.range(5))
d, a, b = it.get_next(), tf.Session(), tf.Session()
[a.run(it.initializer), a.run(d), a.run(d), b.run(it.initializer), b.run(d), a.run(d)]

== tf1 iterators: not initialised in the other session
it = tf.data.make_initializable_iterator(tf.data.Dataset.range(5))
d, a, b = it.get_next(), tf.Session(), tf.Session()
a.run(it.initializer)
b.run(d)

== tf1 iterators: the end
d = tf.data.make_one_shot_iterator(tf.data.Dataset.range(1)).get_next()
S(d)
S(d)

== tf1 iterators: one step for all that take it
d = tf.data.make_one_shot_iterator(tf.data.Dataset.range(5)).get_next()
[S([d, d + 1]), S([d, d * 2])]

== tf1 sessions: variables of two
v = V(1.)
up = v.assign_add(1.)
a, b = tf.Session(), tf.Session()
a.run(v.initializer); b.run(v.initializer)
[a.run(up), a.run(up), b.run(v), a.run(v)]

== tf1 sessions: closed
s = tf.Session()
x = tf.constant(1.)
s.close()
s.run(x)

== tf1 sessions: nests of fetches
x, v = tf.constant(2.), V(1.)
S({"a": x, "b": [x, (v, x + 1.)]})

== tf1 sessions: an operation is None
x = tf.constant(2.)
S([x.op, x])

== tf1 sessions: partial runs by hand
v = V(1.)
with tf.control_dependencies([v.assign_add(1.)]):
    x = tf.constant(5.) * 1.
S([x, v.read_value()])[0], S(v)

== tf1 sessions: names as fetches
x = tf.constant(2., name="c")
S(["c:0", "c"])

== tf1 sessions: eval and run
x, v = tf.constant(2.), V(1.)
S(x)
with S.session.as_default():
    found = [x.eval(), v.eval(), v.assign(4.).eval()]
found

== tf1 random: a graph's seed and an op's
tf.set_random_seed(1)
x = tf.random_uniform([3], seed=2)
a, b = [tf.Session() for _ in range(2)]
one, two, three = a.run(x), a.run(x), b.run(x)
[bool((one == two).all()), bool((one == three).all())]

== tf1 random: an op's seed alone
x = tf.random_normal([3], seed=2)
a, b = [tf.Session() for _ in range(2)]
one, two, three = a.run(x), a.run(x), b.run(x)
[bool((one == two).all()), bool((one == three).all())]

== tf1 random: a graph's seed alone
tf.set_random_seed(1)
x, y = tf.random_normal([3]), tf.random_normal([3])
a, b = [tf.Session() for _ in range(2)]
one, two, three, four = a.run(x), a.run(x), b.run(x), b.run(y)
[bool((p == q).all()) for p, q in ((one, two), (one, three), (three, four))]

== tf1 random: no seed
x = tf.random_normal([3])
a, b = [tf.Session() for _ in range(2)]
one, two, three = a.run(x), a.run(x), b.run(x)
[bool((one == two).all()), bool((one == three).all())]

== tf1 random: dropout with a seed
tf.set_random_seed(1)
x = tf.nn.dropout(tf.ones([50]), rate=.5, seed=3)
a, b = [tf.Session() for _ in range(2)]
one, two, three = a.run(x), a.run(x), b.run(x)
[bool((one == two).all()), bool((one == three).all())]

== tf1 random: initializers with a seed
tf.set_random_seed(1)
v = tf.get_variable("v", [3], initializer=tf.random_normal_initializer(seed=2))
a, b = [tf.Session() for _ in range(2)]
a.run(v.initializer); b.run(v.initializer)
bool((a.run(v) == b.run(v)).all())

== tf1 random: initializers with a graph's seed
tf.set_random_seed(1)
v = tf.get_variable("v", [3])
a, b = [tf.Session() for _ in range(2)]
a.run(v.initializer); b.run(v.initializer)
bool((a.run(v) == b.run(v)).all())

== tf1 random: two graphs with one seed
found = []
for _ in range(2):
    with tf.Graph().as_default(), tf.Session() as s:
        tf.set_random_seed(7)
        found.append(s.run(tf.random_uniform([4])))
bool((found[0] == found[1]).all())

== tf1 where: a condition of rank 1
x = tf.constant([[1., 2.], [3., 4.]])
S(tf.where(tf.constant([True, False]), x, -x))

== tf1 where: a condition of rank 1, three columns
x = tf.reshape(tf.range(6), [2, 3])
S(tf.where([False, True], x, -x))

== tf1 where: a condition of the same shape
x = tf.constant([[1., 2.], [3., 4.]])
S(tf.where(x > 2., x, -x))

== tf1 where: a condition of rank 1 that does not fit
x = tf.reshape(tf.range(6), [2, 3])
S(tf.where([False, True, True], x, -x))

== tf1 where: a scalar condition
x = tf.constant([[1., 2.], [3., 4.]])
S(tf.where(tf.constant(True), x, -x))

== tf1 where: shapes that would broadcast
S(tf.where(tf.constant([True, False]), [1., 2.], [3.]))

== tf1 where: a fed condition
x, c = tf.constant([[1., 2.], [3., 4.]]), P([2], tf.bool)
S(tf.where(c, x, -x), {c: [True, False]})

== tf1 where: a condition of unknown size
x, c = P([None, 2]), P([None], tf.bool)
S(tf.where(c, x, -x), {c: [True, False], x: [[1., 2.], [3., 4.]]})

== tf1 where: its gradient
w = V([[1., 2.], [3., 4.]])
S(tf.gradients(tf.where([True, False], w, 2. * w), w))

== tf1 where: the condition alone
S(tf.where([True, False, True]))

== tf1 where: the one of version 2
x = tf.constant([[1., 2.], [3., 4.]])
S(tf.where_v2(tf.constant([True, False]), x, -x))

== tf1 division: integers
S([tf.div(7, 2), tf.div(-7, 2), tf.div(tf.constant([7, -7]), 2)])

== tf1 division: floats
S([tf.div(7., 2.), tf.div(tf.constant(-7.), 2.)])

== tf1 division: true and floor
S([tf.truediv(7, 2), tf.divide(7, 2), tf.floordiv(-7, 2),
   tf.constant(7) / 2, tf.constant(7) // 2])

== tf1 division: remainders
S([tf.floormod(-7, 3), tf.constant(-7) % 3])

== tf1 losses: reductions
p, y = tf.constant([[1., 2.], [3., 4.]]), tf.constant([[0., 0.], [1., 1.]])
R = tf.losses.Reduction
S([tf.losses.mean_squared_error(y, p, reduction=r) for r in R.all()])

== tf1 losses: reductions with weights
p, y = tf.constant([[1., 2.], [3., 4.]]), tf.constant([[0., 0.], [1., 1.]])
S([tf.losses.absolute_difference(y, p, weights=[[0.], [2.]], reduction=r)
   for r in tf.losses.Reduction.all()])

== tf1 losses: sparse softmax, reductions
p, y = tf.constant([[1., 2., 0.], [3., 4., 1.]]), tf.constant([2, 0])
S([tf.losses.sparse_softmax_cross_entropy(y, p, weights=[1., 3.], reduction=r)
   for r in tf.losses.Reduction.all()])

== tf1 losses: softmax, reductions
p, y = tf.constant([[1., 2., 0.], [3., 4., 1.]]), tf.constant([[0., 0., 1.], [1., 0., 0.]])
S([tf.losses.softmax_cross_entropy(y, p, label_smoothing=.1, reduction=r)
   for r in tf.losses.Reduction.all()])

== tf1 losses: sigmoid, reductions
p, y = tf.constant([[1., 2.], [3., -4.]]), tf.constant([[0., 1.], [1., 0.]])
S([tf.losses.sigmoid_cross_entropy(y, p, reduction=r)
   for r in tf.losses.Reduction.all()])

== tf1 losses: a reduction that there is not
p = tf.constant([[1., 2.], [3., 4.]])
tf.losses.mean_squared_error(p, p, reduction="median")

== tf1 losses: weights of zero
p, y = tf.constant([1., 2.]), tf.constant([0., 0.])
S([tf.losses.mean_squared_error(y, p, weights=0.),
   tf.losses.mean_squared_error(y, p, weights=[0., 0.]),
   tf.losses.mean_squared_error(y, p, weights=[0., 1.])])

== tf1 losses: the sum of all
p, y = tf.constant([1., 2.]), tf.constant([0., 0.])
tf.losses.mean_squared_error(y, p); tf.losses.absolute_difference(y, p)
S([tf.losses.get_total_loss(), tf.add_n(tf.losses.get_losses())])

== tf1 losses: compute_weighted_loss
S([tf.losses.compute_weighted_loss(tf.constant([1., 2., 3.]), [1., 0., 2.], reduction=r)
   for r in tf.losses.Reduction.all()])

== tf1 layers: activity_regularizer
x = tf.constant([[1., 2.], [3., 4.]])
y = tf.layers.dense(x, 2, kernel_initializer=tf.ones_initializer(),
                    activity_regularizer=lambda a: .5 * sum_of(a * a))
S([y, tf.losses.get_regularization_loss()])

== tf1 layers: kernel_regularizer
x = tf.constant([[1., 2.]])
y = tf.layers.dense(x, 2, kernel_initializer=tf.ones_initializer(),
                    kernel_regularizer=lambda a: .5 * sum_of(a * a))
S([y, tf.losses.get_regularization_loss()])

== tf1 layers: activity_regularizer of a convolution
x = tf.ones([1, 4, 4, 1])
y = tf.layers.conv2d(x, 1, 2, kernel_initializer=tf.ones_initializer(),
                     activity_regularizer=lambda a: sum_of(a))
S([y, tf.losses.get_regularization_loss()])

== tf1 layers: batch normalization, update ops
x = tf.constant([[1.], [3.]])
y = tf.layers.batch_normalization(x, training=True, momentum=.5)
updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
before = S([y, len(updates) and tf.constant(1.)])
means = [S(v) for v in tf.global_variables()]
S(updates)
[before, means, [S(v) for v in tf.global_variables()]]

== tf1 images: resize_bilinear
x = tf.reshape(tf.range(16.), [1, 4, 4, 1])
S([tf.image.resize_bilinear(x, [6, 3]),
   tf.image.resize_bilinear(x, [6, 3], align_corners=True)])

== tf1 images: half_pixel_centers
x = tf.reshape(tf.range(16.), [1, 4, 4, 1])
S(tf.image.resize_bilinear(x, [6, 3], half_pixel_centers=True))

== tf1 images: resize_nearest_neighbor
x = tf.reshape(tf.range(16.), [1, 4, 4, 1])
S([tf.image.resize_nearest_neighbor(x, [6, 3]),
   tf.image.resize_nearest_neighbor(x, [7, 3], align_corners=True)])

== tf1 images: resize_images
x = tf.reshape(tf.range(16.), [1, 4, 4, 1])
S([tf.image.resize_images(x, [6, 3], method=m) for m in range(2)])

== tf1 images: resize_images, bicubic and area
x = tf.reshape(tf.range(16.), [1, 4, 4, 1])
S([tf.image.resize_images(x, [6, 3], method=m) for m in (2, 3)])

== tf1 images: resize
x = tf.reshape(tf.range(16.), [1, 4, 4, 1])
S([tf.image.resize(x, [6, 3]), tf.image.resize(x, [6, 3], align_corners=True)])

== tf1 images: resize of integers
x = tf.reshape(tf.range(16), [4, 4, 1])
S([tf.image.resize_images(x, [6, 3]), tf.image.resize_images(x, [6, 3], method=1)])

== tf1 images: resize to the same size
x = tf.reshape(tf.range(16), [1, 4, 4, 1])
S(tf.image.resize_images(x, [4, 4]))

== tf1 images: resize_area
x = tf.reshape(tf.range(16.), [1, 4, 4, 1])
S(tf.image.resize_area(x, [2, 3]))

== tf1 embeddings: partitions
A, B = V([[0.], [2.], [4.]]), V([[1.], [3.]])
S(tf.nn.embedding_lookup([A, B], [0, 1, 2, 3, 4]))

== tf1 embeddings: partitions, div
A, B = V([[0.], [1.], [2.]]), V([[3.], [4.]])
S(tf.nn.embedding_lookup([A, B], [0, 1, 2, 3, 4], partition_strategy="div"))

== tf1 embeddings: partitions, ids of rank 2
A, B = V([[0.], [2.], [4.]]), V([[1.], [3.]])
S(tf.nn.embedding_lookup([A, B], [[0, 3], [4, 4]]))

== tf1 embeddings: partitions, gradients
A, B = V([[0.], [2.], [4.]]), V([[1.], [3.]])
y = sum_of(tf.nn.embedding_lookup([A, B], [0, 3, 3]) * [[1.], [2.], [3.]])
S([tf.convert_to_tensor(g) for g in tf.gradients(y, [A, B])])

== tf1 embeddings: one table
A = V([[0.], [2.], [4.]])
S([tf.nn.embedding_lookup(A, [2, 0]), tf.nn.embedding_lookup([A], [2, 0])])

== tf1 embeddings: max_norm
A = V([[3., 4.], [.3, .4]])
S(tf.nn.embedding_lookup(A, [0, 1], max_norm=1.))

== tf1 embeddings: a strategy that there is not
A, B = V([[0.], [2.]]), V([[1.], [3.]])
tf.nn.embedding_lookup([A, B], [0], partition_strategy="odd")

== tf1 text: constants
S([tf.constant("abc"), tf.constant(["a", "bc"])])

== tf1 text: operations
x = tf.constant(["a", "bc"])
S([tf.strings.join([x, x]), tf.strings.length(x), tf.strings.upper(x)])

== tf1 text: identity and fed
x = P([None], tf.string)
S([tf.identity(x), tf.strings.length(x)], {x: ["a", b"bcd"]})

== tf1 text: comparison
x = tf.constant(["a", "bc"])
S(tf.equal(x, "a"))

== tf1 text: from a data set
d = tf.data.Dataset.from_tensor_slices(["a", "b"])
n = tf.data.make_one_shot_iterator(d).get_next()
[S(n), S(n)]

== tf1 text: to numbers
S([tf.strings.to_number(tf.constant(["1.5", "2"]))])

== tf1 text: gather and stack
x = tf.constant(["a", "bc", "d"])
S([tf.gather(x, [2, 0]), x[1], tf.stack([x, x]), tf.reshape(x, [3, 1]),
   tf.concat([x, x], 0)])

== tf1 names: of variables
with tf.variable_scope("s"):
    w = tf.get_variable("w", [2])
[w.name, w.op.name, w.initializer.name]

== tf1 names: of variables made twice
a, b = [tf.Variable(1., name="v") for _ in range(2)]
[a.name, b.name, a.op.name, b.op.name]

== tf1 names: of slots
w = tf.get_variable("w", initializer=1.)
opt = tf.train.MomentumOptimizer(.1, .9)
opt.minimize(w * w)
[v.op.name for v in tf.global_variables()]

== tf1 names: of tensors
x = tf.constant(1., name="x")
with tf.name_scope("a"):
    y = tf.add(x, 1., name="y")
[x.name, y.name, y.op.name, x.op.type]

== tf1 names: the operation of a variable by name
w = tf.get_variable("w", [2])
tf.get_default_graph().get_operation_by_name("w").name

== tf1 variables: initialized_value, an initializer object
w = tf.get_variable("w", [4, 3], initializer=tf.ones_initializer())
u = tf.Variable(tf.zeros_like(w.initialized_value()), trainable=False)
x = w.initialized_value() * 2.
[x.shape, x.dtype, S([u, x])]

== tf1 variables: initialized_value before initialisation
w = tf.get_variable("w", [2], initializer=tf.ones_initializer())
R(w.initialized_value() * 3.)

== tf1 variables: initialized_value after a change
w = tf.get_variable("w", [2], initializer=tf.ones_initializer())
S(w.assign([5., 6.]))
S(w.initialized_value())

== tf1 variables: initialized_value of one made of another
w = tf.Variable(tf.random_normal([3], seed=1), name="w")
u = tf.Variable(w.initialized_value() * 2.)
one, two = S([w, u])
np.allclose(one * 2., two)

== tf1 variables: accumulated gradients
w = tf.get_variable("w", [2], initializer=tf.ones_initializer())
opt = tf.train.GradientDescentOptimizer(.1)
accs = [tf.Variable(tf.zeros_like(v.initialized_value()), trainable=False)
        for v in tf.trainable_variables()]
zero = [a.assign(tf.zeros_like(a)) for a in accs]
pairs = opt.compute_gradients(sum_of(w * w), tf.trainable_variables())
add = [a.assign_add(g) for a, (g, _) in zip(accs, pairs)]
step = opt.apply_gradients([(a, v) for a, (_, v) in zip(accs, pairs)])
S(zero); S(add); S(add); S(step)
S([w, *accs])

== tf1 variables: initial_value
w = tf.get_variable("w", [2], initializer=tf.ones_initializer())
S(w.initial_value)

== tf1 variables: a tensor as initializer
with tf.variable_scope("s"):
    w = tf.get_variable("w", initializer=tf.constant([1., 2.]) * 2.)
[w.name, S(w)]

== tf1 variables: a function as initializer
w = tf.get_variable("w", [2], initializer=lambda shape, dtype, partition_info=None:
                    tf.ones(shape, dtype) * 3.)
S(w)

== tf1 variables: assignments that are not run
w = V(1.)
up = w.assign_add(1.)
[S(w), S(up), S(w)]

== tf1 variables: an assignment in a dependency
w = V(1.)
with tf.control_dependencies([w.assign(7.)]):
    y = w.read_value() + 1.
[S(w), S(y), S(w)]

== tf1 variables: count_up_to and load
w = tf.Variable(0)
S(w)
w.load(5, S.session)
S(w + 1)

== tf1 variables: is_variable_initialized
w = V(1.)
[R(tf.is_variable_initialized(w)), R(tf.report_uninitialized_variables())]

== tf1 variables: not initialised
w = V(1.)
R(w + 1.)

== tf1 variables: reuse
def layer():
    return tf.get_variable("w", [2], initializer=tf.ones_initializer())
with tf.variable_scope("s"):
    a = layer()
with tf.variable_scope("s", reuse=True):
    b = layer()
[a is b, len(tf.global_variables())]

== tf1 variables: the same name twice
tf.get_variable("w", [2])
tf.get_variable("w", [2])

== tf1 variables: the initial value is an int
w = tf.Variable(3)
S([w, w + 1])

== tf1 variables: devices
w = tf.get_variable("w", [2])
with tf.device("/cpu:0"):
    u = tf.get_variable("u", [2])
[w.device, u.device]

== tf1 operations: what a tensor is of
x = tf.constant(1.) + 2.
[x.op.name, x.op.outputs[0] is x, len(x.op.inputs), x.consumers() == []]

== tf1 operations: no_op and group
w, u = V(1.), V(2.)
step = tf.group(w.assign(3.), u.assign(4.), tf.no_op())
[S(step), S([w, u])]

== tf1 operations: add_n
S([tf.add_n([tf.constant(1.), tf.constant(2.)])])

== tf1 conditions: bools of one element
S([tf.cond(tf.constant([True]), lambda: 1., lambda: 2.)])

== tf1 conditions: an array of one element
S(tf.cond(tf.constant([[False]]), lambda: 1., lambda: 2.))

== tf1 conditions: fed, of one element
c = P([1], tf.bool)
S(tf.cond(c, lambda: 1., lambda: 2.), {c: [True]})

== tf1 conditions: a number
S(tf.cond(tf.constant(2), lambda: 1., lambda: 2.))

== tf1 conditions: effects of one branch
w = V(1.)
y = tf.cond(w > 5., lambda: w.assign_add(1.), lambda: w.assign_sub(1.))
[S(y), S(w)]

== tf1 conditions: nested results
S(tf.cond(tf.constant(True), lambda: {"a": 1., "b": (2, 3)}, lambda: {"a": 4., "b": (5, 6)}))

== tf1 conditions: the old names
S(tf.cond(pred=tf.constant(True), fn1=lambda: 1., fn2=lambda: 2.))

== tf1 conditions: case
x = P([])
y = tf.case([(x < 1., lambda: 10.), (x < 2., lambda: 20.)], default=lambda: 30.)
[S(y, {x: v}) for v in (.5, 1.5, 2.5)]

== tf1 loops: a counter
S(tf.while_loop(lambda i: i < 10, lambda i: i * 2 + 1, [0]))

== tf1 loops: several
S(tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * 2.), (0, tf.constant(1.))))

== tf1 loops: effects
w = V(1.)
def body(i):
    with tf.control_dependencies([w.assign_add(1.)]):
        return i + 1
[S(tf.while_loop(lambda i: i < 3, body, [0])), S(w)]

== tf1 values: arrays of a placeholder
np.asarray(P([2]))

== tf1 values: as a bool
bool(tf.constant(1.) > 0.)

== tf1 reductions: the old names
x = tf.constant([[1., 2.], [3., 4.]])
S([tf.reduce_sum(x, reduction_indices=[0]), tf.reduce_mean(x, 1, keep_dims=True),
   tf.reduce_max(x, keepdims=True), tf.argmax(x, dimension=1)])

== tf1 shapes: static
x = P([None, 3])
y = tf.matmul(x, tf.ones([3, 2]))
[y.shape.as_list(), tf.reshape(x, [-1]).shape.as_list(), x.get_shape().ndims]

== tf1 casts
x = tf.constant([1.7, -1.7])
S([tf.to_int32(x), tf.to_float([1, 2]), tf.cast(x, tf.bool)])

== tf1 nn: softmax with the old names
x = tf.constant([[1., 2.], [3., 5.]])
S([tf.nn.softmax(x, dim=0), tf.nn.softmax_cross_entropy_with_logits_v2(labels=x, logits=x)])

== tf1 nn: dropout keeps
x = tf.ones([4])
S([tf.nn.dropout(x, keep_prob=1.), tf.nn.dropout(x, 1.), tf.nn.dropout(x, rate=0.)])

== tf1 nn: moments and batch normalization
x = tf.constant([[1., 2.], [3., 6.]])
m, v = tf.nn.moments(x, [0])
S([m, v, tf.nn.batch_normalization(x, m, v, None, None, 1e-3)])

== tf1 nn: moments keep_dims
x = tf.constant([[1., 2.], [3., 6.]])
S(tf.nn.moments(x, [0], keep_dims=True))

== tf1 nn: fused_batch_norm
x = tf.reshape(tf.range(8.), [2, 2, 1, 2])
S(tf.nn.fused_batch_norm(x, tf.ones([2]), tf.zeros([2]))[0])

== tf1 nn: sparse softmax, labels out of range
x = tf.constant([[1., 2.]])
S(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=[5], logits=x))

== tf1 nn: weighted cross entropy
S(tf.nn.weighted_cross_entropy_with_logits(tf.constant([1., 0.]), tf.constant([.5, 2.]), 3.))

== tf1 nn: conv2d and pools with the old names
x = tf.reshape(tf.range(16.), [1, 4, 4, 1])
S([tf.nn.conv2d(x, filter=tf.ones([2, 2, 1, 1]), strides=[1, 1, 1, 1], padding="VALID"),
   tf.nn.max_pool(x, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="SAME"),
   tf.nn.avg_pool(x, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")])

== tf1 nn: l2_normalize and zero_fraction
x = tf.constant([[3., 4.], [0., 0.]])
S([tf.nn.l2_normalize(x, dim=1), tf.nn.zero_fraction(x), tf.nn.l2_loss(x)])

== tf1 schedules: exponential_decay
n = P([], tf.int32)
y = tf.train.exponential_decay(.1, n, 10, .5)
z = tf.train.exponential_decay(.1, n, 10, .5, staircase=True)
[S([y, z], {n: i}) for i in (0, 5, 10, 25)]

== tf1 schedules: polynomial_decay
n = P([], tf.int32)
y = tf.train.polynomial_decay(.1, n, 10, .01, power=2.)
z = tf.train.polynomial_decay(.1, n, 10, .01, cycle=True)
[S([y, z], {n: i}) for i in (0, 5, 10, 25)]

== tf1 schedules: piecewise_constant
n = P([], tf.int32)
y = tf.train.piecewise_constant(n, [3, 6], [1., .5, .1])
[S(y, {n: i}) for i in (0, 3, 4, 6, 7)]

== tf1 schedules: the rest
n = P([], tf.int32)
a = tf.train.inverse_time_decay(.1, n, 10, .5)
b = tf.train.inverse_time_decay(.1, n, 10, .5, staircase=True)
[S([a, b], {n: i}) for i in (0, 5, 25)]

== tf1 metrics: accuracy and mean
value, update = tf.metrics.mean(P([], name="x"))
x = tf.get_default_graph().get_tensor_by_name("x:0")
[S([update], {x: v}) for v in (1., 2.)] + [S(value)]

== tf1 collections: of the graph
w, u = V(1.), V(2., trainable=False)
[len(tf.global_variables()), len(tf.trainable_variables()), len(tf.local_variables())]

== tf1 calls: py_func
S(tf.py_func(lambda a: a * 2, [tf.constant([1., 2.])], tf.float32))

== tf1 calls: functions of version 2
@tf.function
def f(x):
    return x * 2.
S(f(tf.constant(3.)))

== tf1 calls: an assertion that fails
with tf.control_dependencies([tf.assert_equal(tf.constant(1) + P([], tf.int32, name="a"), 2)]):
    y = tf.identity(3.)
S(y, {"a:0": 5})

== tf1 calls: map_fn and scan
x = tf.constant([1., 2., 3.])
S([tf.map_fn(lambda a: a * a, x), tf.scan(lambda a, b: a + b, x)])

== tf1 habits: sizes of shapes have a value
x, w = P([None, 4, 6]), V(np.ones((3, 5)))
d = x.get_shape()[1] * x.get_shape()[2]
flat = tf.reshape(x, [-1, x.shape[1].value * x.shape[2].value])
sizes = [one.value for one in w.get_shape()] + [x.shape[0].value, (x.shape[1] + 1).value]
[*sizes, tf.reshape(x, [-1, d]).shape.as_list(), flat.get_shape().as_list()]

== tf1 habits: dimensions
d = tf.Dimension(3)
[(d + 2).value, (2 * d).value, (d // 2).value, tf.Dimension(None).value, str(d)]

== tf1 habits: results may be written to
r, q = S([tf.constant([1., 2.]), V(np.zeros(2))])
r[0], q[1] = 5., 7.
[r, q]

== tf1 habits: cond of lists, older names, strict
p = P([], tf.bool)
one = tf.cond(p, lambda: [tf.constant(1.)], lambda: [tf.constant(2.)])
two = tf.cond(p, fn1=lambda: tf.constant(1.), fn2=lambda: tf.constant(2.))
three = tf.cond(p, lambda: [one], lambda: [two], strict=True)
[S([one + 1., two, three], {p: x}) for x in (True, False)]

== tf1 habits: case of a dict
x = P([])
pairs = {x < 1.: lambda: tf.constant(10.), x > 2.: lambda: tf.constant(20.)}
y = tf.case(pairs, default=lambda: tf.constant(30.), exclusive=True)
[S(y, {x: one}) for one in (0., 1.5, 5.)]

== tf1 habits: older keywords of reductions
x = tf.reshape(tf.range(6.), [2, 3])
some = [tf.reduce_logsumexp(x, 1, keep_dims=True), tf.norm(x, axis=1, keep_dims=True)]
more = [tf.count_nonzero(x, 1, keep_dims=True)]
S(some + more + [tf.reduce_any(x > 3., reduction_indices=1)])

== tf1 habits: older keywords of images and blocks
v = tf.reshape(tf.range(16.), [1, 4, 4, 1])
cut = tf.image.crop_and_resize(v, [[0., 0., .5, .5]], box_ind=[0], crop_size=[2, 2])
deep = tf.space_to_depth(v, block_size=2)
batch = tf.space_to_batch(v, [[0, 0], [0, 0]], 2)
back = tf.batch_to_space(batch, [[0, 0], [0, 0]], block_size=2)
turned = tf.reverse_sequence(v[0, :, :, 0], [2, 3, 1, 4], seq_dim=1, batch_dim=0)
S([cut, deep, tf.depth_to_space(deep, 2), batch, back, turned])

== tf1 habits: older keywords of convolutions
v, f = tf.reshape(tf.range(16.), [1, 4, 4, 1]), tf.ones([2, 2, 1, 1])
some = [tf.nn.convolution(v, f, "VALID", dilation_rate=[2, 2])]
some += [tf.nn.pool(v, [2, 2], "MAX", "VALID", dilation_rate=[2, 2])]
some += [tf.nn.conv2d(v, f, [1, 1, 1, 1], "SAME", use_cudnn_on_gpu=True)]
some += [tf.nn.depthwise_conv2d(v, f, [1, 1, 1, 1], "VALID", rate=[1, 1])]
some += [tf.nn.conv2d_transpose(v, f, [1, 8, 8, 1], [1, 2, 2, 1])]
some += [tf.nn.conv1d(value=v[0], filters=f[0], stride=1, padding="VALID")]
S(some)

== tf1 habits: losses by older keywords
x, labels = tf.reshape(tf.range(6.), [2, 3]), tf.ones([2, 3]) / 3.
loss = tf.nn.softmax_cross_entropy_with_logits_v2(labels=labels, logits=x, dim=-1)
S([loss, tf.nn.weighted_cross_entropy_with_logits(labels, x, pos_weight=2.)])

== tf1 habits: gradients with all keywords
x = P([None, 2])
y = tf.matmul(x, V([[1.], [2.]]))
more = dict(colocate_gradients_with_ops=True, gate_gradients=False, name="g")
S(tf.gradients(y, x, grad_ys=tf.ones_like(y), aggregation_method=2, **more), {x: np.ones((3, 2))})

== tf1 habits: names at the top
x = tf.constant([[2., 1.], [1., 3.]])
some = [tf.matrix_inverse(x), tf.matrix_determinant(x), tf.cholesky(x), tf.trace(x)]
some += [tf.matrix_diag([1., 2.]), tf.diag([1., 2.]), tf.diag_part(x)]
some += [tf.matrix_band_part(x, 0, -1), tf.global_norm([x]), tf.log1p(x), tf.mod(7, 3)]
some += [tf.unsorted_segment_sum(x, [0, 0], 2), tf.to_double(1), tf.floor_div(7, 2)]
some += [tf.squared_difference(1., 3.), tf.confusion_matrix([0, 1], [1, 1])]
S(some)

== tf1 habits: assertions
x = P([None])
checks = [tf.assert_equal(tf.shape(x)[0], 2), tf.assert_rank(x, 1)]
checks += [tf.assert_positive(x), tf.assert_less(x, 9.)]
with tf.control_dependencies(checks):
    y = tf.identity(x)
S(y, {x: [1., 2.]})

== tf1 habits: rows of variables
v = V([1., 2., 3.])
a = tf.scatter_update(v, [0], [9.])
with tf.control_dependencies([a]):
    b = tf.scatter_add(v, [1], [1.])
with tf.control_dependencies([b]):
    c = tf.scatter_sub(v, [2], [1.])
S(c)

== tf1 habits: parts of variables are assigned
v = V(np.zeros((2, 3)))
first, second = v[1, 2].assign(9.), v[:, 1:].assign(tf.ones([2, 2]))
[S(first), S(second), S(v)]

== tf1 habits: adagrad, adadelta, ftrl
v = [V([1., 2.]) for _ in range(3)]
kinds = [tf.train.AdagradOptimizer, tf.train.AdadeltaOptimizer, tf.train.FtrlOptimizer]
steps = [k(.1).minimize(sum_of(w * w), var_list=[w]) for k, w in zip(kinds, v)]
[S(steps) and S(v) for _ in range(3)]

== tf1 habits: averages of variables
v = tf.get_variable("v", [], initializer=tf.ones_initializer())
average = tf.train.ExponentialMovingAverage(.5)
update, up = average.apply([v]), v.assign(3.)
names = [average.average_name(v), average.average(v).name]
names += [sorted(average.variables_to_restore()), len(tf.moving_average_variables())]
[S(up), S(update), S(average.average(v)), *names]

== tf1 habits: averages of tensors
x, n = P([]), tf.train.get_or_create_global_step()
average = tf.train.ExponentialMovingAverage(.9, n)
update = average.apply([2. * x])
plain = tf.train.ExponentialMovingAverage(.9, zero_debias=True)
y = 2. * x
other = plain.apply([y])
[S([update, other], {x: 1.}), S(other, {x: 2.}), S(plain.average(y))]

== tf1 habits: an optimizer of one's own
class Mine(tf.train.Optimizer):
    def __init__(self, rate):
        super().__init__(False, "Mine")
        self._lr = rate
    def _prepare(self):
        self._rate_tensor = tf.convert_to_tensor(self._lr, name="rate")
    def _create_slots(self, var_list):
        for v in var_list:
            self._zeros_slot(v, "m", self._name)
    def _apply_dense(self, grad, var):
        m = self.get_slot(var, "m")
        new = m.assign(.9 * m + grad)
        return tf.group(tf.assign_sub(var, self._rate_tensor * new), new)
    def _resource_apply_dense(self, grad, var):
        return self._apply_dense(grad, var)
v, o = V([1., 2.]), Mine(.1)
step = o.minimize(sum_of(v * v), colocate_gradients_with_ops=True, gate_gradients=o.GATE_OP)
[S(step), S(step), S([v, o.get_slot(v, "m")]), o.get_slot_names()]

== tf1 habits: gradients are fed
v, g = V([1., 2.]), P([2])
step = tf.train.AdamOptimizer(.1).apply_gradients([(g, v)])
[S(step, {g: [1., 1.]}), S(step, {g: [1., -1.]}), S(v)]

== tf1 habits: states are fed
cell = tf.nn.rnn_cell.BasicLSTMCell(2)
c, h, x = P([None, 2]), P([None, 2]), P([None, 3, 2])
state = tf.nn.rnn_cell.LSTMStateTuple(c, h)
_, final = tf.nn.dynamic_rnn(cell, x, initial_state=state)
first = S(final, {x: np.ones((1, 3, 2)), state: (np.zeros((1, 2)), np.zeros((1, 2)))})
second = S(final, {x: np.ones((1, 3, 2)), state: first})
[type(first).__name__, second.c.shape, final.c.shape.as_list()]
"""


def program(tf: Any) -> dict[str, Any]:
    """What programs see besides ``tf``: `tf` is the side's ``compat.v1``."""
    count = iter(range(1000))

    class Run:
        """`S(fetch, feed)` runs in one session, which it initialises first."""

        def __init__(self, initialises: bool) -> None:
            self.initialises = initialises

        def __call__(self, fetch: Any, feed: Any = None) -> Any:
            if not hasattr(self, "session"):
                self.session = tf.Session()
            if self.initialises:
                self.initialises = False
                self.session.run(tf.global_variables_initializer())
                self.session.run(tf.local_variables_initializer())
            return self.session.run(fetch, feed)

    def variable(value: Any, **options: Any) -> Any:
        first = np.asarray(value, np.float32)
        name = f"v{next(count)}"
        return tf.get_variable(name, initializer=first, use_resource=True, **options)

    return {
        "tf": tf,
        "np": np,
        "S": Run(True),
        "R": Run(False),
        "V": variable,
        "P": lambda shape, dtype=tf.float32, **options: tf.placeholder(
            dtype, shape, **options
        ),
        "I": tf.placeholder(tf.int32, [None], name="ids"),
        "sum_of": tf.reduce_sum,
    }


def sources() -> dict[str, str]:
    """The text of each program, by name."""
    blocks = PROGRAMS.split("\n== ")[1:]
    return {name: text for name, _, text in (block.partition("\n") for block in blocks)}


def evaluated(tf: Any, text: str) -> Any:
    """What the last line of a program gives."""
    v1 = tf.compat.v1
    body = ast.parse(text).body
    last = body.pop()
    assert isinstance(last, ast.Expr)
    # TensorFlow's errors look into the code that made an operation, and need it alive
    first = compile(ast.Module(body, []), __file__, "exec")
    then = compile(ast.Expression(last.value), __file__, "eval")
    with v1.Graph().as_default():
        known = program(v1)
        exec(first, known)
        return eval(then, known)


def cases() -> dict[str, Callable[[Any], Any]]:
    """A function of ``tf`` for each program."""
    return {
        name: lambda tf, text=text: evaluated(tf, text)
        for name, text in sources().items()
    }
