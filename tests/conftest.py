"""Unit tests run on one thread: on loaded cores, tiny tensors are ten times slower with more.

Ctrl-C is heard: a shell that starts the tests in the background would have it ignored, here and in what they start.
"""

import signal

import torch

torch.set_num_threads(1)
signal.signal(signal.SIGINT, signal.default_int_handler)
