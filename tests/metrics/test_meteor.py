"""METEOR against the jar's numbers, against a value by hand, and against the jar itself where there is Java."""

from __future__ import annotations

import gzip
import json
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from groundling.cli import main
from groundling.errors import DataError, GroundlingError, MissingExtra
from groundling.metrics import meteor as package
from groundling.metrics.meteor import meteor
from groundling.metrics.meteor.align import align as aligned
from groundling.metrics.meteor.align import chunks
from groundling.metrics.meteor.lexicon import PARAPHRASE, STEM, java_hash
from groundling.metrics.meteor.matches import Corpus, Matches
from groundling.metrics.meteor.normalise import tokens
from groundling.metrics.meteor.paraphrases import BASE, PRIME, Table, _read, find, hash_lines, open_table

pytest.importorskip("pycocoevalcap")

VECTORS = Path(__file__).parent.parent / "vectors" / "captions_s.json.gz"


def test_the_jars_numbers_per_image_and_for_the_corpus() -> None:
    with gzip.open(VECTORS) as file:
        vectors = json.load(file)
    found = meteor(vectors["tokenised_hypotheses"], vectors["tokenised_references"], vectors["ids"])
    np.testing.assert_allclose(found.per_item(), vectors["expected"]["per_image"]["METEOR"], rtol=0, atol=1e-9)
    assert found.score().value == pytest.approx(vectors["expected"]["overall"]["METEOR"], abs=1e-9)


def test_a_value_by_hand() -> None:
    """Caption "a dog", reference "a cat": "a" matches, a function word, weight 1/4; the other words weigh 3/4.

    P = R = (1/4) / (3/4 + 1/4) = 1/4 = F; one chunk of one match: penalty 0.6 * 1; score 1/4 * 0.4.
    """
    assert meteor(["a dog"], [["a cat"]]).score().value == pytest.approx(0.1)


def test_the_same_sentence_scores_one() -> None:
    assert meteor(["a dog runs on the beach"], [["no", "a dog runs on the beach"]]).score().value == 1.0


@pytest.mark.parametrize(("hypothesis", "true"), [("", "a dog"), ("a dog", ""), ("", ""), ("kite", "boat")])
def test_nothing_in_common_scores_zero(hypothesis: str, true: str) -> None:
    assert meteor([hypothesis], [[true]]).score().value == 0.0


def test_stems_synonyms_and_paraphrases_match() -> None:
    for hypothesis, true in (("wetsuits", "wetsuit"), ("couch", "sofa"), ("all of a sudden", "suddenly")):
        assert meteor([hypothesis], [[true]]).score().value > 0.5, (hypothesis, true)


def test_the_corpus_score_is_that_of_the_summed_statistics_not_a_mean() -> None:
    both = meteor(["a dog runs", "x"], [["a dog runs"], ["a very long reference that nothing matches"]])
    assert both.score().value != pytest.approx(both.per_item().mean(), abs=0.01)


class Match(NamedTuple):
    start: int
    length: int
    offset: int
    words: int
    kind: int


def match(start: int, offset: int, kind: int = 0) -> Match:
    return Match(start, 1, offset, 1, kind)


def matches(pairs: list[list[list[Match]]]) -> Matches:
    rows = [(p, *m) for p, pair in enumerate(pairs) for here in pair for m in here]
    return Matches(*np.array(rows, np.int64).reshape(-1, 6).T)


def align(pairs: list[list[list[Match]]]) -> list[list[Match]]:
    """Matches of pairs by the word of the reference where they begin -> those of the best alignments."""
    given, lengths = matches(pairs), np.array([len(pair) + 1 for pair in pairs])
    chosen = given.of(aligned(given, np.full(len(pairs), 400), lengths))
    best: list[list[Match]] = [[] for _ in pairs]
    for pair, *one in zip(*(column.tolist() for column in chosen), strict=True):
        best[pair].append(Match(*one))
    return best


def test_chunks_are_runs_in_both_sentences() -> None:
    pair = [[match(0, 0)], [match(1, 1)], [match(2, 3)], [], [match(4, 4)]]
    assert chunks(matches([pair, [], pair[:2]]), 3).tolist() == [3, 0, 1]


def test_of_equally_many_matches_the_fewest_chunks_are_taken() -> None:
    """Reference "a b", caption "a x a b": the second "a" makes one chunk with "b"."""
    assert align([[[match(0, 0), match(0, 2)], [match(1, 3)]]]) == [[match(0, 2), match(1, 3)]]


def test_a_phrase_is_worth_half_its_words_rounded_down() -> None:
    """A paraphrase of two words by two counts 1 + 1, an exact word 1 + 1, a stem 0 + 0: ties go to fewer chunks."""
    phrase = Match(0, 2, 0, 2, PARAPHRASE)
    assert align([[[match(0, 0), phrase], [match(1, 5, STEM)]]]) == [[phrase]]
    assert align([[[match(0, 0), phrase], [match(1, 1)]]]) == [[match(0, 0), match(1, 1)]]


@pytest.mark.parametrize("shift", [58, 62, 64, 120, 126])
def test_places_beyond_64_words_are_aligned_alike(shift: int) -> None:
    """Words that match nothing, put before the caption, change the places of the matches and nothing else."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        table = [[(int(i), 1) for i in rng.integers(0, 6, rng.integers(0, 4))] for _ in range(6)]
        table[2].append((2, 3))
        near, far = (
            [[Match(j, 1, i + by, n, n > 1 and PARAPHRASE) for i, n in here] for j, here in enumerate(table)]
            for by in (200, 200 + shift)
        )
        moved = [m._replace(offset=m.offset + shift) for m in align([near])[0]]
        assert align([far]) == [moved]


def test_pairs_are_aligned_together_as_they_are_alone() -> None:
    rng = np.random.default_rng(1)
    pairs = [
        [[match(j, int(i)) for i in rng.integers(0, 9, rng.integers(0, 4))] for j in range(rng.integers(0, 9))]
        for _ in range(600)
    ]
    assert align(pairs) == [align([pair])[0] for pair in pairs]


def test_paraphrases_are_found_on_both_sides() -> None:
    table = _table_of([("all of a sudden", "suddenly"), ("suddenly", "at once"), ("a", "the")])
    corpus = Corpus([["it", "fell", "all", "of", "a", "sudden"], ["suddenly", "it", "fell"]], package._lexicon())
    spans, owner, other = find(corpus.words, corpus.vocabulary, corpus.lengths, table)
    assert (spans.at.tolist(), spans.length.tolist()) == ([2, 6], [4, 1])
    assert (owner.tolist(), other.tolist()) == ([spans.phrase[0]], [spans.phrase[1]])  # no "at once", no "the"


def test_alignments_are_those_of_a_search_that_stops_at_every_word() -> None:
    """Pairs of all kinds, with matches of several words, against the search as METEOR describes it, one by one."""
    rng = np.random.default_rng(2)

    def some(j: int, size: int) -> Match:
        length, words = (int(x) for x in rng.choice([1, 1, 1, 2, 3], 2))
        start = min(length, size - j), min(words, 9)
        return Match(j, start[0], int(rng.integers(0, 10 - start[1])), start[1], int(rng.integers(0, 4)))

    pairs = []
    for _ in range(400):
        size = int(rng.integers(1, 9))
        pairs.append([[some(j, size) for _ in range(rng.choice([0, 0, 1, 1, 2, 4]))] for j in range(size)])
    assert align(pairs) == [_word_by_word(pair) for pair in pairs]


def _word_by_word(pair: list[list[Match]]) -> list[Match]:
    """The beam search, one alignment at a time: (cost, matches, words used, first word behind, end of the last)."""
    covered = Counter(j for here in pair for m in here for j in range(m.start, m.start + m.length))
    matched = Counter(i for here in pair for m in here for i in range(m.offset, m.offset + m.words))

    def certain(m: Match) -> bool:
        return (
            {covered[j] for j in range(m.start, m.start + m.length)}
            == {1}
            == {matched[i] for i in range(m.offset, m.offset + m.words)}
        )

    beam: list[tuple[int, list[Match], set[int], int, int]] = [(0, [], set(), 0, -1)]
    for j, here in enumerate(pair):
        following = []
        for cost, taken, used, after, end in beam:
            passed = 0
            for m in here if after <= j else []:
                words = set(range(m.offset, m.offset + m.words))
                if not words & used:
                    apart = abs(m.start - m.offset)
                    gain = m.length + m.words if m.kind == 0 else m.length // 2 + m.words // 2
                    breaks = (end not in (-1, m.offset)) << 36
                    more = cost - (gain << 48) + breaks + passed + apart * certain(m)
                    following.append((more, [*taken, m], used | words, j + m.length, m.offset + m.words))
                    passed += apart
            if after > j:
                following.append((cost, taken, used, after, end))
            elif not (len(here) == 1 and certain(here[0])):
                following.append((cost + passed + ((end != -1) << 36), taken, used, after, -1))
        beam = sorted(following, key=lambda state: state[0])[:40]
    return min(beam, key=lambda state: state[0] + ((state[4] != -1) << 36))[1]


def _table_of(pairs: list[tuple[str, str]]) -> Table:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "table.gz")
        path.write_bytes(gzip.compress("".join(f"0.5\n{a}\n{b}\n" for a, b in pairs).encode()))
        return _read(path)


def test_hashes_of_phrases_by_hand() -> None:
    """h <- (h xor eight bytes) P, mixed; a phrase of two words is h(first) B + h(second), all modulo 2^64."""
    whole, base = 1 << 64, int(BASE)

    def of_word(word: bytes) -> int:
        value = 0
        for at in range(0, len(word), 8):
            value = (value ^ int.from_bytes(word[at : at + 8], "little")) * int(PRIME) % whole
        return (value ^ (value >> 32)) * base % whole

    dog, red = of_word(b"dog"), of_word("lingonröd".encode())
    assert hash_lines("dog\nlingonröd dog\ndog lingonröd dog\n".encode()).tolist() == [
        dog,
        (red * base + dog) % whole,
        ((dog * base + red) * base + dog) % whole,
    ]
    assert len(hash_lines(b"")) == 0


def test_lines_across_blocks_are_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [("all of a sudden", "suddenly"), ("suddenly", "at once"), ("a", "the")]
    whole = _table_of(pairs)
    monkeypatch.setattr("groundling.metrics.meteor.paraphrases.BLOCK", 7)
    assert [array.tolist() for array in _table_of(pairs)] == [array.tolist() for array in whole]


def test_a_damaged_table_is_named(tmp_path: Path) -> None:
    path = tmp_path / "table.gz"
    path.write_bytes(gzip.compress(b"0.5\na b\nc\n0.5\nd\n"))
    with pytest.raises(DataError, match=r"table\.gz is damaged"):
        _read(path)


def test_the_index_is_made_again_when_it_is_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "table.gz"
    path.write_bytes(gzip.compress(b"0.5\na b\nc\n0.5\nd\ne f\n"))
    first = [array.tolist() for array in open_table(path)]
    for file in (tmp_path / "cache" / "groundling").iterdir():
        file.write_bytes(file.read_bytes()[:-3])
    assert [array.tolist() for array in open_table(path)] == first


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a t-shirt and jeans", "a t shirt and jeans"),
        ("i 'm here", "i ' m here"),
        ("mr. smith", "mr. smith"),
        ("the end.", "the end ."),
        ("u.s. flag", "us flag"),
        ("1,000 dogs , cats", "1,000 dogs , cats"),
        ("wait ... what", "wait ... what"),
        ("50% off", "50 % off"),
        ("3\u00a01/2 dogs", "3 1 / 2 dogs"),
        ("mr.\u3000dog", "mr . dog"),
    ],
)
def test_normalisation(text: str, expected: str) -> None:
    assert tokens(text, package._lexicon().prefixes) == expected.split()


def test_words_are_compared_as_java_does() -> None:
    """31 * 65 + 97 = 31 * 66 + 66: the classic collision."""
    assert java_hash("Aa") == java_hash("BB") == 2112


def test_without_the_word_lists_the_cure_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    package._lexicon.cache_clear()
    with pytest.raises(MissingExtra, match=r"groundling\[score\]"):
        meteor(["a"], [["a"]])
    package._lexicon.cache_clear()


@pytest.mark.java
@pytest.mark.skipif(shutil.which("java") is None, reason="no Java here")
def test_the_jar_itself_agrees() -> None:
    hypotheses = [
        "two dogs running in the snow",
        "",
        "a man 's t-shirt",
        "a a a b b",
        "the the dog sat all of a sudden",
    ]
    hypotheses += [
        "i shall be toppings we know are contaminating dubious statement from the commission on",
        "5\u00a0dogs",
    ]
    true = [["a pair of dogs run through snow", "dogs"], ["a cat"], ["the man in a shirt"], ["b a b a"], ["a dog sits"]]
    true += [["toppings which we recognise rate will be commission statement on dubious"], ["the 5 dogs"]]
    ours, jar = meteor(hypotheses, true), meteor(hypotheses, true, java=True)
    np.testing.assert_array_equal(ours.values, jar.values)
    np.testing.assert_array_equal(ours.per_item(), jar.per_item())


@pytest.fixture
def fake_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A `java` that answers each line with a row of numbers, read from a file beside it."""
    script = tmp_path / "java"
    script.write_text(
        f"""#!{sys.executable}
import sys
for line in sys.stdin:
    print(open({str(tmp_path / "row")!r}).read())
"""
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path / "row"


def test_the_command_asks_the_jar(fake_java: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two words on either side, "a" matched: the value by hand above, 0.1, from the numbers as the jar writes them."""
    kinds = "0 0 1 1" + " 0" * 12  # exact: content words of caption and reference, function words; then other kinds
    fake_java.write_text(f"2 2 1 1 {kinds} 1 1 1")
    pred, refs = tmp_path / "pred.json", tmp_path / "refs.json"
    pred.write_text(json.dumps([{"image_id": 1, "caption": "a dog"}]))
    note = {"id": 1, "image_id": 1, "caption": "a cat"}
    refs.write_text(json.dumps({"images": [{"id": 1}], "annotations": [note]}))
    files = ["--pred", str(pred), "--refs", str(refs)]
    main(["score", "captions", *files, "--metrics", "meteor", "--java", "--json"])
    (score,) = json.loads(capsys.readouterr().out)["scores"]
    assert (score["name"], score["n"]) == ("METEOR", 1)
    assert score["value"] == pytest.approx(0.1)
    assert "by:jar" in score["signature"]


def test_an_answer_that_is_no_row_of_numbers_is_an_error(fake_java: Path) -> None:
    fake_java.write_text("Error: something")
    with pytest.raises(GroundlingError, match="Error: something"):
        meteor(["a dog"], [["a cat"]], java=True)


def test_without_java_the_jar_cannot_be_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(MissingExtra, match="no `java` on the PATH"):
        meteor(["a dog"], [["a cat"]], java=True)


def test_a_caption_beyond_all_measure_is_refused() -> None:
    with pytest.raises(DataError, match="2001 words"):
        meteor(["dog " * 2001], [["a cat"]])
