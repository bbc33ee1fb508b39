"""Up-Down with the grounding-aware region encoding: class and position of each region beside its features.

The baseline of Ma et al., Learning to Generate Grounded Visual Captions without Localization Supervision, ECCV 2020
(appendix D), after Zhou et al., Grounded Video Description, CVPR 2019:

 (1)  h^A_t = LSTM([v_g; h^L_{t-1}; e_{t-1}]),   e_{t-1} = W_e y_{t-1}                  v_g: vector of the whole image
      v_i = W [f_i; softmax(W_cᵀ f_i); W_l l_i]

f_i: its feature.  W_c: classifiers of the object classes.  l_i: its normalised box.  The image vector and the feature
map of the region source are used where it gives them: the former instead of v̄, the latter attended like the regions
and added to v̂_t.

The paper's: the encoding of regions, and that image vector and feature map are used. Ours: W_c, which is learned with
the rest instead of taken from a classifier of Visual Genome.
"""

from dataclasses import dataclass

from groundling.recipes import AwareRecipe


@dataclass(frozen=True, kw_only=True)
class UpdownAware(AwareRecipe):
    """`AwareRecipe` of `_base.py` as it is, on which others build: sizes, parts, teacher forcing, cross-entropy."""
