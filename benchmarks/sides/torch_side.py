# SPDX-License-Identifier: MIT
"""PyTorch: an eager loop, the same step through torch.compile, and a DataLoader."""

from __future__ import annotations

import importlib
from typing import Any

from benchmarks.jobs import LEARNING_RATE, MOMENTUM, Data, Order
from benchmarks.sides import torch_networks
from benchmarks.sides.harness import Side, main


class TorchSide(Side):
    """Variants `eager`, `compile` and `draw`."""

    def load(self, order: Order) -> str:
        self.torch: Any = importlib.import_module("torch")
        self.torch.set_num_threads(order.threads)
        return f"torch {self.torch.__version__}"

    def build(self, order: Order, data: Data) -> None:
        torch = self.torch
        self.order = order
        self.position = 0
        self.x = torch.from_numpy(data.x)
        self.y = torch.from_numpy(data.y).long()
        self.rows = torch.from_numpy(data.order).long()
        self.losses = torch.zeros(order.job.steps)
        if order.job.kind in ("fit", "draw"):
            self.build_loader()
        if order.job.network:
            self.build_network(data)
            return
        if order.variant == "eager":
            self.build_eager(data)
        elif order.variant == "compile":
            self.build_compiled(data)

    def build_loader(self) -> None:
        """The documented fast way: a sampler of whole batches over a data set."""
        data = self.torch.utils.data
        tensors = data.TensorDataset(self.x, self.y)
        batches = data.BatchSampler(
            data.RandomSampler(tensors), self.order.job.batch, drop_last=True
        )
        self.loader = data.DataLoader(tensors, sampler=batches, batch_size=None)
        self.batches = iter(self.loader)

    def next_batch(self) -> tuple[Any, Any]:
        batch = next(self.batches, None)
        if batch is None:
            self.batches = iter(self.loader)
            batch = next(self.batches)
        return batch[0].float(), batch[1]

    def build_eager(self, data: Data) -> None:
        nn = self.torch.nn
        layers: list[Any] = []
        for index in range(0, len(data.weights), 2):
            weights, bias = data.weights[index : index + 2]
            layer = nn.Linear(*weights.shape)
            with self.torch.no_grad():
                layer.weight.copy_(self.torch.from_numpy(weights).T)
                layer.bias.copy_(self.torch.from_numpy(bias))
            layers += [layer, nn.ReLU()]
        self.model = nn.Sequential(*layers[:-1])
        self.loss = nn.functional.cross_entropy
        self.optimizer = self.torch.optim.SGD(
            self.model.parameters(), lr=LEARNING_RATE, momentum=MOMENTUM, fused=True
        )

    def build_network(self, data: Data) -> None:
        """Forward and backward of the module are compiled, or neither is."""
        model = torch_networks.make(self.order.job.network, data.weights)
        model.train(self.order.job.kind == "train")
        used = [weight for weight in model.parameters() if weight.requires_grad]
        self.optimizer = self.torch.optim.SGD(
            used, lr=LEARNING_RATE, momentum=MOMENTUM, fused=True
        )
        entropy = self.torch.nn.functional.cross_entropy

        def loss_of(x: Any, y: Any) -> Any:
            return entropy(model(x).flatten(0, -2), y.flatten())

        compiles = self.order.variant == "compile"
        self.loss_of = self.torch.compile(loss_of) if compiles else loss_of

    def step_network(self, x: Any, y: Any) -> Any:
        if self.order.job.kind == "forward":
            with self.torch.inference_mode():
                return self.loss_of(x, y)
        loss = self.loss_of(x, y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def train_eager(self, x: Any, y: Any) -> Any:
        loss = self.loss(self.model(x), y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def build_compiled(self, data: Data) -> None:
        """One graph for gather, forward, backward and update: faster than compiling the
        model alone, whose optimizer and autograd stay in Python."""
        torch = self.torch
        self.weights = [torch.from_numpy(w.copy()) for w in data.weights]
        self.velocity = [torch.zeros_like(w) for w in self.weights]

        def loss_of(weights: list[Any], x: Any, y: Any) -> Any:
            for index in range(0, len(weights), 2):
                x = torch.addmm(weights[index + 1], x, weights[index])
                x = torch.relu(x) if index + 2 < len(weights) else x
            return torch.nn.functional.cross_entropy(x, y)

        gradient = torch.func.grad_and_value(loss_of)

        def step(
            weights: list[Any], velocity: list[Any], x: Any, y: Any, rows: Any
        ) -> Any:
            gradients, loss = gradient(weights, x[rows], y[rows])
            for w, v, g in zip(weights, velocity, gradients, strict=True):
                v.mul_(MOMENTUM).sub_(g, alpha=LEARNING_RATE)
                w.add_(v)
            return loss

        self.step = torch.compile(step, fullgraph=True, dynamic=False)

    def run(self, executions: int) -> list[float]:
        last: list[float] = []
        for _ in range(executions):
            rows = self.rows[self.position % len(self.rows)]
            self.position += 1
            last = self.execute(rows)
        return last

    def execute(self, rows: Any) -> list[float]:
        steps = self.order.job.steps
        if self.order.job.kind == "draw":
            for _ in range(steps):
                self.next_batch()
            return []
        if self.order.job.network:
            for step in range(steps):
                row = rows[step]
                self.losses[step] = self.step_network(self.x[row], self.y[row])
        elif self.order.variant == "compile":
            for step in range(steps):
                self.losses[step] = self.step(
                    self.weights, self.velocity, self.x, self.y, rows[step]
                )
        elif self.order.job.kind == "fit":
            for step in range(steps):
                self.losses[step] = self.train_eager(*self.next_batch())
        else:
            for step in range(steps):
                row = rows[step]
                self.losses[step] = self.train_eager(self.x[row], self.y[row])
        return [float(loss) for loss in self.losses.tolist()]


if __name__ == "__main__":
    main(TorchSide())
