from __future__ import annotations

import torch

from groundling.objectives.region_classes import region_cross_entropy


def test_true_regions_of_words_with_a_class_count_and_no_others() -> None:
    """p(class 1) of the two regions is 1/2 and 4/5. The word of class 1 has both: (log 2 + log 5/4) / 2."""
    logits = torch.tensor([[[0.5, 0.5], [0.2, 0.8]]]).log()
    truth = torch.tensor([[[True, True], [True, True], [False, False]]])
    classes = torch.tensor([[1, -1, 0]])
    expected = (torch.tensor(2.0).log() + torch.tensor(1.25).log()) / 2
    torch.testing.assert_close(region_cross_entropy(logits, truth, classes), expected)


def test_it_is_differentiable_and_0_where_nothing_is_true() -> None:
    logits = torch.randn(1, 2, 3, dtype=torch.float64, requires_grad=True)
    truth, classes = torch.tensor([[[True, False]]]), torch.tensor([[2]])
    assert torch.autograd.gradcheck(lambda x: region_cross_entropy(x, truth, classes), logits)
    assert region_cross_entropy(logits, truth & False, classes) == 0
