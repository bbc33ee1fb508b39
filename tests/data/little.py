"""Little data sets of every format, written by the tests: two or three images of 100 x 80 pixels each."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

from PIL import Image

SIZE = (100, 80)

SENTENCES = """[/EN#1/people A man] in [/EN#2/clothing a red hat] sees [/EN#0/notvisual it] .
[/EN#1/people A man] and [/EN#3/animals/other two dogs] in [/EN#4/scene the park] .
"""
ANNOTATION = """<annotation><filename>{id}.jpg</filename><size><width>{width}</width><height>{height}</height></size>
<object><name>1</name><name>5</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>50</xmax><ymax>80</ymax></bndbox></object>
<object><name>2</name><bndbox><xmin>11</xmin><ymin>1</ymin><xmax>30</xmax><ymax>10</ymax></bndbox></object>
<object><name>3</name><bndbox><xmin>51</xmin><ymin>41</ymin><xmax>70</xmax><ymax>80</ymax></bndbox></object>
<object><name>3</name><bndbox><xmin>81</xmin><ymin>41</ymin><xmax>100</xmax><ymax>80</ymax></bndbox></object>
<object><name>4</name><scene>1</scene><nobndbox>0</nobndbox></object></annotation>"""


def image(path: Path, size: tuple[int, int] = SIZE) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, (90, 120, 60)).save(path, format="PNG")


def dump(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")


def flickr(root: Path, ids: tuple[str, ...] = ("11", "22", "33"), drawn: tuple[int, int] = SIZE) -> Path:
    """The first images are `train`, the last is `val`."""
    for folder in ("Sentences", "Annotations"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    for id in ids:
        (root / "Sentences" / f"{id}.txt").write_text(SENTENCES, encoding="utf-8")
        text = ANNOTATION.format(id=id, width=drawn[0], height=drawn[1])
        (root / "Annotations" / f"{id}.xml").write_text(text, encoding="utf-8")
        image(root / "images" / f"{id}.png")
    (root / "train.txt").write_text("\n".join(ids[:-1]) + "\n")
    (root / "val.txt").write_text(f"{ids[-1]}\n")
    return root


def table(root: Path) -> Path:
    for name in ("a.png", "b.png"):
        image(root / "images" / name)
    (root / "captions.csv").write_text(
        'image,caption,split\na.png,"A dog, running.",train\na.png,Dogs,train\nb.png,Cats,val\n'
    )
    return root


def lines(root: Path) -> Path:
    image(root / "a.png")
    rows = [{"image": "a.png", "captions": ["A dog.", "Two dogs."], "id": 7}, {"image": "b.png", "caption": "A cat."}]
    image(root / "b.png")
    (root / "mine.jsonl").write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    return root


def karpathy(root: Path) -> Path:
    def row(number: int, split: str) -> dict[str, Any]:
        sentence = {"raw": "A dog runs.", "tokens": ["a", "dog", "runs"], "sentid": number}
        name = f"COCO_val2014_{number:012d}.jpg"
        image(root / "val2014" / name)
        return {"filename": name, "filepath": "val2014", "cocoid": number, "split": split, "sentences": [sentence] * 2}

    splits = {1: "train", 2: "restval", 3: "test"}
    dump(root / "dataset_coco.json", {"dataset": "coco", "images": [row(n, split) for n, split in splits.items()]})
    return root


def coco(root: Path) -> Path:
    for split, number in (("train", 1), ("val", 2)):
        name = f"{number:012d}.jpg"
        image(root / f"{split}2017" / name)
        images = [{"id": number, "file_name": name, "width": 100, "height": 80}]
        captions = [
            {"id": 10 + i, "image_id": number, "caption": text} for i, text in enumerate(("A dog.", "One dog."))
        ]
        dump(root / "annotations" / f"captions_{split}2017.json", {"images": images, "annotations": captions})
        seen = [{"id": 1, "image_id": number, "category_id": 18, "bbox": [10, 20, 30, 40]}]
        seen.append({"id": 2, "image_id": 99, "category_id": 18, "bbox": [1, 1, 1, 1]})
        kinds = [{"id": 18, "name": "dog"}]
        content = {"images": images, "annotations": seen, "categories": kinds}
        dump(root / "annotations" / f"instances_{split}2017.json", content)
    return root


def refcoco(root: Path) -> Path:
    images = [{"id": n, "file_name": f"{n}.jpg", "width": 100, "height": 80} for n in (1, 2)]
    for row in images:
        image(root / "images" / str(row["file_name"]))
    boxes = [{"id": 10 * n, "image_id": n, "category_id": 1, "bbox": [5, 5, 20, 30]} for n in (1, 2)]
    dump(root / "instances.json", {"images": images, "annotations": boxes, "categories": [{"id": 1, "name": "person"}]})
    refs = [
        {
            "ref_id": n,
            "ann_id": 10 * n,
            "image_id": n,
            "split": split,
            "sentences": [
                {"sent": "man on left", "raw": "Man on left!"},
                {"sent": "the tall one", "raw": "the tall one"},
            ],
        }
        for n, split in ((1, "train"), (2, "testA"))
    ]
    (root / "refs(unc).p").write_bytes(pickle.dumps(refs, protocol=0))
    return root


def anet(root: Path) -> Path:
    segment = {
        "tokens": ["A", "man", "pets", "his", "dog", "."],
        "process_bnd_box": [[0, 0, 99, 99], [10, 10, 59, 59], [20, 20, 59, 59]],
        "frame_ind": [0, 0, 7],
        "process_idx": [[1, 3], [4], [4]],
        "process_clss": [["man", "he"], ["dog"], ["dog"]],
        "crowds": [0, 0, 0],
        "timestamps": [0.0, 12.5],
    }
    empty = dict.fromkeys(("process_bnd_box", "frame_ind", "process_idx", "process_clss", "crowds"), [])
    videos = {
        "v_a": {"segments": {"0": segment, "11": empty | {"tokens": ["Bye"]}}},
        "v_b": {"segments": {"0": segment}},
    }
    dump(root / "anet_entities_cleaned_class_thresh50_trainval.json", {"vocab": ["man"], "annotations": videos})
    dump(root / "split_ids_anet_entities.json", {"training": ["v_a"], "validation": ["v_b"], "testing": []})
    dump(root / "anet_entities_trainval.json", {"database": {"v_a": {"rwidth": 720, "rheight": 405, "segments": {}}}})
    return root


def reference(root: Path) -> Path:
    captions = {
        "tokens": ["A", "man", "and", "dogs"],
        "process_idx": [1, 3],
        "process_clss": ["man", "dog"],
        "process_bnd_box": [[0, 0, 9, 9], [5, 5, 24, 34]],
    }
    rows = [{"image_id": n, "image_size": [100, 80], "captions": [captions, captions]} for n in (1, 2)]
    dump(root / "flickr30k_cleaned_class.json", {"vocab": ["man", "dog"], "annotations": rows})
    dump(root / "split_ids_flickr30k_entities.json", {"train": ["1"], "val": ["2"], "test": []})
    return root


def instapic(root: Path) -> Path:
    posts = {"anna": {f"p{n}": {"caption": "Love ❤️ my 2 DOGS!! #dogs", "tags": ["dogs"]} for n in range(20)}}
    dump(root / "json" / "insta-caption-train.json", posts)
    dump(root / "json" / "insta-caption-test1.json", {"ben.q": {"q": {"caption": "one two " * 20, "tags": []}}})
    for user, rows in (*posts.items(), ("ben.q", {"q": None})):
        for post in rows:
            image(root / "images" / f"{user}_@_{post}", (4, 4))
    return root


ALL = {
    "Flickr30k Entities": flickr,
    "captions in a table": table,
    "Karpathy splits": karpathy,
    "COCO captions": coco,
    "RefCOCO": refcoco,
    "ActivityNet-Entities": anet,
    "Flickr30k-Entities reference": reference,
    "InstaPIC-1.1M": instapic,
}
