"""Each test uses one thread: the networks are tiny."""

import torch

torch.set_num_threads(1)
