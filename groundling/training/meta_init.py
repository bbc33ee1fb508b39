"""Modules without memory, until they are filled with weights that are on the disk.

What a file says of sizes is not believed before the weights agree: of any size, such modules take no memory. Nothing is
drawn at random for weights that are replaced at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from groundling.errors import DataError

OF_SIZES = (torch.empty, torch.zeros, torch.ones, torch.full, torch.rand, torch.randn)
MOST = 10_000  # tensors of a model; ours have a hundred at most


class MetaInit(TorchFunctionMode):
    """In its `with`, tensors that are made of sizes have no memory (the meta device); those of values are as ever."""

    made = 0

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Sequence[type],
        args: Any = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = dict(kwargs or {})
        if function in OF_SIZES:
            self.made += 1
            if self.made > MOST:
                raise DataError(f"it asks for more than {MOST:,} tensors")
            kwargs["device"] = "meta"
        if getattr(function, "__name__", "") == "normal_":  # without memory it would import a compiler, for seconds
            return args[0] if args else kwargs["tensor"]
        return function(*args, **kwargs)


def in_meta_init() -> bool:
    """Whether modules are being made without memory."""
    return torch.empty(0).is_meta


def fill(parts: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Give modules without memory their weights, in their own types; RuntimeError where names or sizes differ."""
    kinds = {name: value.dtype for name, value in parts.state_dict().items()}
    own = {name: value.to(kinds.get(name, value.dtype), copy=True) for name, value in weights.items()}
    parts.load_state_dict(own, assign=True)
