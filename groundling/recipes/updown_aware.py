"""Up-Down with the grounding-aware region encoding: class and position of each region beside its features.

The baseline of Ma et al., Learning to Generate Grounded Visual Captions without Localization Supervision, ECCV 2020
(appendix D), after Zhou et al., Grounded Video Description, CVPR 2019:

 (1)  h^A_t = LSTM([v_g; h^L_{t-1}; e_{t-1}]),   e_{t-1} = W_e y_{t-1}                  v_g: vector of the whole image
      v_i = W [f_i; softmax(W_cᵀ f_i); W_l l_i]

f_i: feature of region i.  W_c: classifiers of the object classes.  l_i: its normalised box.

Where the region source gives a vector of the whole image, it is v_g, else v_g is the mean of the regions
(`--no-image-vector`: always). Where the source gives a feature map, the captioner attends to its cells as it does to
the regions, with weights of their own, and adds the result to that of the regions (`--no-image-map`: never).

The paper's: the encoding of regions, and that the image vector and the feature map are used.
Ours: W_c is learned with the rest, where the paper begins with a classifier of Visual Genome; captions of 16 words, and
`min_count` 5 (the paper's vocabulary of Flickr30k has 8,639 words, see `multi_branch`).
"""

from dataclasses import dataclass

from groundling.recipes import AwareRecipe


@dataclass(frozen=True, kw_only=True)
class UpdownAware(AwareRecipe):
    """`AwareRecipe` of `_base.py` as it is, on which others build: sizes, parts, teacher forcing, cross-entropy."""
