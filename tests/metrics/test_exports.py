from __future__ import annotations

from importlib import import_module

import groundling.metrics as metrics


def test_every_name_is_what_its_module_defines_and_none_hides_a_module() -> None:
    for name in metrics.__all__:
        thing = getattr(metrics, name)
        assert callable(thing) and thing.__name__ == name
        assert getattr(import_module(thing.__module__), name) is thing
    assert {"CiderReward", "score_captions", "score_chair", "score_diversity", "tokenize"} <= set(metrics.__all__)
