"""Unit tests run on one thread: on loaded cores, tiny tensors are ten times slower with more."""

import torch

torch.set_num_threads(1)
