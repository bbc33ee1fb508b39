"""Tokens of the Penn Treebank: against the original's output, and the properties that hold whatever the text."""

from __future__ import annotations

import gzip
import json
import random
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from groundling.text import ptb
from groundling.text.ptb import tokenize
from groundling.text.ptb_rules import ROWS, Rule, rules_by_first_character

VECTORS = Path(__file__).parent.parent / "vectors" / "ptb_tokenizer.json.gz"


def vectors() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(gzip.decompress(VECTORS.read_bytes()))
    return loaded


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("A man's hat isn't red.", "a man 's hat is n't red"),
        ("We cannot, they're gonna", "we can not they 're gon na"),
        ("(left) [right] {brace}", "-lrb- left -rrb- -lsb- right -rsb- -lcb- brace -rcb-"),
        ("the U.S. and Ph.D. at 5 p.m.", "the u.s. and ph.d. at 5 p.m."),
        ("plan B. The end, plan b. the end", "plan b the end plan b. the end"),
        ("No. 5, no. five", "no. 5 no five"),
        ("1,000.50 at 10:30, 50% of $5", "1,000.50 at 10:30 50 % of $ 5"),
        ("½ of £3 and €4 or 5¢", "1/2 of # 3 and $ 4 or 5 cents"),
        ("“curly” ‘quotes’ don’t", "curly quotes do n't"),
        ("what?! no... --- well", "what ?! no well"),
        ("see http://a.org/b, www.x.com or me@x.org.", "see http://a.org/b www.x.com or me@x.org"),
        ("#tag2020 @some_one", "#tag 2020 @some_one"),
        ("a smile :-) and ^_^", "a smile :--rrb- and ^_^"),
        ("black-and-white 3-year-old's T-shirt", "black-and-white 3-year-old 's t-shirt"),
        ("emoji 🐶 and U+2010 ‐ vanish", "emoji and u +2010 vanish"),
        ("soft\u00adhyphen", "softhyphen"),
        ("rock 'n' roll in the '90s, 'tis", "rock 'n' roll in the '90s 't is"),
        ("plan T. \x85 The end, fig.\x853 of '90\x85", "plan t the end fig. 3 of '90"),
    ],
)
def test_what_becomes_of(text: str, tokens: str) -> None:
    assert " ".join(tokenize(text)) == tokens


def test_a_token_may_hold_a_space_that_does_not_break() -> None:
    assert tokenize("3 1/2 miles, call (555) 123-4567") == ["3\xa01/2", "miles", "call", "-lrb-555-rrb-\xa0123-4567"]
    assert tokenize('<a href="x"> b') == ['<a\xa0href="x">', "b"]


def test_every_vector_is_right() -> None:
    wrong = [case["text"] for case in vectors()["cases"] if " ".join(tokenize(case["text"])) != case["tokens"]]
    assert wrong == []


def test_raw_tokens_are_right_but_for_the_doubled_period() -> None:
    def raw(tokens: list[str]) -> list[str]:
        return [t.lower() for t in tokens if t != "."]

    cases = vectors()["cases"]
    wrong = [c["text"] for c in cases if raw(ptb.lex(c["text"])) != raw(c["raw"].split(" ") if c["raw"] else [])]
    assert wrong == []


def test_where_the_original_looks_at_the_next_caption_one_of_its_answers_is_given() -> None:
    cases = vectors()["neighbour_dependent"]
    wrong = [case["text"] for case in cases if " ".join(tokenize(case["text"])) not in case["filtered_variants"]]
    assert wrong == []


@pytest.mark.parametrize("separator", ["\n", "\r", "\r\n", "\v", "\f", "\u2028", "\u2029"])
def test_a_separator_of_lines_is_a_space(separator: str) -> None:
    assert tokenize(f"a man{separator}with dogs{separator}") == ["a", "man", "with", "dogs"]


def test_nothing_gives_nothing() -> None:
    assert tokenize("") == tokenize("  \t ") == tokenize("...") == tokenize("\ud800") == []


pieces = st.sampled_from(
    ["a", "A", "n't", "'s", "'", "’", '"', "-", "--", ".", "...", ",", "!", "&", "&amp;", "/", "@", "#", "$", "<", ">"]
    + ["<b>", "(", ")", ":", "=", "1", "12", "1/2", "555", "5,000", "U.S", "Mr", "etc", "No", "The", "x.com", "http://"]
    + ["www.", "é", "日", "½", "\u00ad", "\u00a0", "\u2009", "🐶", "\t", " ", "  ", "pty. ltd", "PTY. ltd", "B. The "]
)
texts = st.lists(pieces, max_size=12).map("".join) | st.text(max_size=30)


@given(texts)
def test_any_text_gives_lower_case_tokens_without_plain_spaces(text: str) -> None:
    for token in tokenize(text):
        assert token and " " not in token and "\n" not in token
        assert token == token.lower()
        assert token not in ptb.PUNCTUATION


def read_as_a_whole(text: str) -> list[str]:
    tokens = ptb.lex(text.translate(ptb._LINES))
    return ptb._counted([*tokens[:-1], *(t.rstrip() for t in tokens[-1:])]).split(" ")


@given(texts)
@example("b \xa0.net")
@example("5 100 2000 1/2")
@example("No. 5")
@example("PTY. ltd")
@example("cannot, gonna. Etc. x. mfg. dog, dog.")
def test_reading_chunk_by_chunk_changes_nothing(text: str) -> None:
    assert (tokenize(text) or [""]) == read_as_a_whole(text)


@given(st.lists(texts | st.sampled_from(["", "A dog.", "a dog. two\n", "\n", "it isn't. . .", "\ud800"]), max_size=5))
def test_many_texts_at_once_are_tokenised_as_each_alone(several: list[str]) -> None:
    assert ptb.token_texts(several) == [ptb.token_text(text) for text in several]


def test_first_characters_leave_no_rule_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """With every rule tried everywhere the tokens stay the same."""
    everything = tuple(Rule(re.compile(pattern).match, tidy) for _, pattern, tidy in ROWS)
    shuffled = random.Random(0)
    cases = [case["text"] for case in vectors()["cases"]]
    cases += [shuffled.choice(cases) + shuffled.choice(cases) for _ in range(300)]
    before = [ptb.lex(text) for text in cases]
    monkeypatch.setattr(ptb, "_RULES_AT", dict.fromkeys(rules_by_first_character(), everything))
    assert [ptb.lex(text) for text in cases] == before


@pytest.mark.java
def test_agrees_with_the_original_program(tmp_path: Path) -> None:
    pycocoevalcap = pytest.importorskip("pycocoevalcap")
    jar = Path(pycocoevalcap.__path__[0]) / "tokenizer" / "stanford-corenlp-3.4.1.jar"
    if shutil.which("java") is None or not jar.exists():
        pytest.skip("needs Java and the jar")
    shuffled = random.Random(1)
    parts = [word for case in vectors()["cases"] for word in case["text"].split() if "<" not in word]
    lines = [" ".join(shuffled.choices(parts, k=5)) + " x" for _ in range(2000)]
    (tmp_path / "lines").write_text("\n".join(lines), encoding="utf-8")
    main = ["java", "-cp", str(jar), "edu.stanford.nlp.process.PTBTokenizer", "-preserveLines", "-lowerCase"]
    output = subprocess.run([*main, str(tmp_path / "lines")], capture_output=True, check=True).stdout.decode()
    theirs = [[w for w in line.rstrip().split(" ") if w not in ptb.PUNCTUATION] for line in output.split("\n")]
    assert [text for text, tokens in zip(lines, theirs, strict=False) if tokenize(text) != tokens] == []
