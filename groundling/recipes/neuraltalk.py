"""Neuraltalk2, trained with cross-entropy: a captioner without attention.

Karpathy and Fei-Fei, Deep Visual-Semantic Alignments for Generating Image Descriptions, CVPR 2015, in the form of its
second code, which follows Vinyals et al., Show and Tell, CVPR 2015:

    x_{-1} = W_I v + b_I,   x_t = W_e y_t           v: vector of the whole image, the mean of its regions if it has none
    h_t = LSTM(x_t, h_{t-1})
    p(y_{t+1} | y_1 … y_t) = softmax(W_o h_t + b_o)

    loss = −log p(y*_t | y*_1 … y*_{t-1}), averaged over the words of the batch

It attends to no region, so its words get no boxes. The baseline of Dai and Lin, NeurIPS 2017.
The papers': the equations, and captions of 18 words. Ours: the network that makes v is not trained.
"""

from dataclasses import dataclass

from groundling.models.neuraltalk import Neuraltalk2
from groundling.recipes import CrossEntropyRecipe
from groundling.recipes._settings import CaptionData, Share, Training
from groundling.recipes._types import Classes, Layout, Parts, Vocab


@dataclass(frozen=True, kw_only=True)
class Neuraltalk(CrossEntropyRecipe):
    hidden: int = 512  # size of h
    embed: int = 512  # size of x
    dropout: Share = 0.5  # dropout of words and h
    data: CaptionData = CaptionData(length=18)
    training: Training = Training(lr=4e-4)

    def parts(self, vocab: Vocab, layout: Layout, classes: Classes) -> Parts:
        captioner = Neuraltalk2(len(vocab), layout.dim, layout.whole, self.hidden, self.embed, self.dropout)
        return Parts(captioner=captioner)
