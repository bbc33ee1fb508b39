"""Captioners and their parts: nn.Modules, tensors in, tensors out. They know no dataset and no loss."""
