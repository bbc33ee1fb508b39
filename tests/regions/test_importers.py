"""Importers: the layouts that others published, written here by hand, and what hostile or broken files do."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from groundling.cli import main
from groundling.errors import DataError, GroundlingError
from groundling.regions import importers
from groundling.regions.store import Store
from groundling.tensors import Regions

D = 6


class Image:
    """What an extractor found in one image."""

    def __init__(self, seed: int, r: int | None = None) -> None:
        rng = np.random.default_rng(seed)
        r = seed % 4 + 2 if r is None else r
        self.feats = rng.normal(size=(r, D)).astype(np.float16).astype(np.float32)
        low, extent = rng.uniform(0, 200, (r, 2)), rng.uniform(1, 100, (r, 2))
        self.boxes = np.concatenate([low, low + extent], 1).astype(np.float32)
        self.labels = rng.integers(0, 1600, r)
        self.scores = rng.random(r).astype(np.float32)
        self.whole = rng.normal(size=9).astype(np.float16).astype(np.float32)

    def is_in(self, regions: Regions) -> bool:
        return bool(
            np.array_equal(regions.feats[0].numpy(), self.feats)
            and np.array_equal(regions.boxes[0].numpy(), self.boxes)
        )


IMAGES = {f"{1000 + i}": Image(i) for i in range(5)}


def read(path: Path, out: Path, format: str = "auto", **more: object) -> Store:
    for _ in importers.copy(importers.entries(path, format), out, "theirs", **more):  # type: ignore[arg-type]
        pass
    return Store.open(out)


def b64(array: np.ndarray) -> bytes:
    return base64.b64encode(array.tobytes())


def six(id: str, image: Image) -> bytes:
    n = len(image.boxes)
    return b"\t".join([id.encode(), b"320", b"310", str(n).encode(), b64(image.boxes), b64(image.feats)]) + b"\n"


def write_tsv(path: Path) -> Path:
    path.write_bytes(b"".join(six(id, image) for id, image in IMAGES.items()))
    return path


# ---------------------------------------------------------------- layouts


def test_bottom_up_attention_tsv(tmp_path: Path) -> None:
    store = read(write_tsv(tmp_path / "t.tsv"), tmp_path / "s")
    assert list(store.ids) == list(IMAGES)
    assert all(image.is_in(store[id]) for id, image in IMAGES.items())
    assert store["1000"].size.tolist() == [[320, 310]] and store["1000"].labels.shape[-1] == 0
    assert (store.fingerprint.name, store.fingerprint.version, store.fingerprint.dim) == ("theirs", "imported", D)


def test_tsv_of_lxmert_with_labels(tmp_path: Path) -> None:
    lines = []
    for id, image in IMAGES.items():
        n = len(image.boxes)
        attrs = np.zeros(n)
        columns = [id.encode(), b"310", b"320", b64(image.labels.astype(np.int64)), b64(image.scores)]
        columns += [b64(attrs.astype(np.int64)), b64(attrs.astype(np.float32))]
        lines.append(b"\t".join([*columns, str(n).encode(), b64(image.boxes), b64(image.feats)]))
    (tmp_path / "t.tsv").write_bytes(b"\n".join(lines))
    store = read(tmp_path / "t.tsv", tmp_path / "s")
    for id, image in IMAGES.items():
        assert image.is_in(store[id]) and store[id].labels[0, :, 0].tolist() == image.labels.tolist()
        assert np.array_equal(store[id].scores[0, :, 0].numpy(), image.scores)
    assert store["1001"].size.tolist() == [[320, 310]]


def test_tsv_in_several_parts_with_the_columns_named(tmp_path: Path) -> None:
    head = b"image_id\timage_w\timage_h\tnum_boxes\tboxes\tfeatures\n"
    rows = [six(id, image) for id, image in IMAGES.items()]
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "train.tsv.0").write_bytes(head + b"".join(rows[:2]))
    (tmp_path / "in" / "train.tsv.1").write_bytes(head + b"".join(rows[2:]))
    store = read(tmp_path / "in", tmp_path / "s")
    assert list(store.ids) == list(IMAGES) and IMAGES["1004"].is_in(store["1004"])


def npz_plain(folder: Path, id: str, image: Image) -> None:
    np.savez(folder / f"{id}.npz", feat=image.feats, boxes=image.boxes, width=320, height=310)


def npz_openvqa(folder: Path, id: str, image: Image) -> None:
    """Features are (D, R)."""
    n = len(image.boxes)
    np.savez(folder / f"{id}.npz", x=image.feats.T, bbox=image.boxes, num_bbox=n, image_h=310, image_w=320)


def npz_padded(folder: Path, id: str, image: Image) -> None:
    n = len(image.boxes)
    feats, boxes = np.zeros((10, D), np.float32), np.zeros((10, 4), np.float32)
    feats[:n], boxes[:n] = image.feats, image.boxes
    np.savez_compressed(folder / f"{id}.npz", features=feats, bbox=boxes, num_bbox=[n], image_h=[310], image_w=[320])


def npz_fractions(folder: Path, id: str, image: Image) -> None:
    boxes = image.boxes.astype(np.float64) / [320, 310, 320, 310]
    np.savez(folder / f"{id}.npz", features=image.feats.astype(np.float64), boxes=boxes, image_h=310, image_w=320)


@pytest.mark.parametrize("write", [npz_plain, npz_openvqa, npz_padded, npz_fractions])
def test_a_folder_of_npz(tmp_path: Path, write: Callable[[Path, str, Image], None]) -> None:
    (tmp_path / "in").mkdir()
    for id, image in IMAGES.items():
        write(tmp_path / "in", id, image)
    store = read(tmp_path / "in", tmp_path / "s")
    assert list(store.ids) == list(IMAGES)
    for id, image in IMAGES.items():
        assert np.array_equal(store[id].feats[0].numpy(), image.feats)
        np.testing.assert_allclose(store[id].boxes[0].numpy(), image.boxes, rtol=1e-6)
        assert store[id].size.tolist() == [[320, 310]]


def test_class_probabilities_become_the_likeliest_class_after_the_background(tmp_path: Path) -> None:
    """Columns: background, class 0, class 1. The background never counts."""
    probs = np.array([[0.7, 0.1, 0.2], [0.0, 0.9, 0.1]], np.float32)
    image = Image(0, 2)
    np.savez(tmp_path / "a.npz", x=image.feats, bbox=image.boxes, image_w=320, image_h=310, cls_prob=probs)
    found = read(tmp_path, tmp_path / "s")["a"]
    assert found.labels[0, :, 0].tolist() == [1, 0]
    torch.testing.assert_close(found.scores[0, :, 0], torch.tensor([0.2, 0.9]))
    assert found.labels[0].tolist() == [[1, 0], [0, 1]]  # the others are kept too, the likeliest first
    torch.testing.assert_close(found.scores[0, :, 1], torch.tensor([0.1, 0.1]))


def test_class_probabilities_are_kept_beside_labels_unless_these_count_classes_otherwise(tmp_path: Path) -> None:
    probs = np.array([[0.7, 0.1, 0.2], [0.0, 0.9, 0.1]], np.float32)
    for name, labels in (("same", [1, 0]), ("other", [2, 1])):
        image = Image(0, 2)
        arrays = {"x": image.feats, "bbox": image.boxes, "image_w": 320, "image_h": 310, "cls_prob": probs}
        (tmp_path / name).mkdir()
        conf = np.array([0.2, 0.9], np.float32)
        np.savez(tmp_path / name / "a.npz", **arrays, objects_id=np.array(labels), objects_conf=conf)
    same, other = (read(tmp_path / name, tmp_path / f"{name}.regions")["a"] for name in ("same", "other"))
    assert same.labels[0].tolist() == [[1, 0], [0, 1]]
    torch.testing.assert_close(same.scores[0], torch.tensor([[0.2, 0.1], [0.9, 0.1]]))
    assert other.labels[0].tolist() == [[2], [1]]


@pytest.mark.parametrize("labels", [{}, {"objects_id": np.array([1, 0])}])
def test_class_probabilities_that_are_no_numbers_are_named(labels: dict[str, np.ndarray], tmp_path: Path) -> None:
    image = Image(0, 2)
    arrays = {"x": image.feats, "bbox": image.boxes, "image_w": 320, "image_h": 310, **labels}
    np.savez(tmp_path / "a.npz", **arrays, cls_prob=np.array([["a", "b", "c"]] * 2))
    with pytest.raises(DataError, match="probabilities of classes are <U1, not numbers"):
        read(tmp_path, tmp_path / "s")


def test_class_probabilities_may_be_unsigned(tmp_path: Path) -> None:
    """Percents 10 and 20 of region 0, 90 and 0 of region 1: negated as they are, 0 would come first."""
    image = Image(0, 2)
    arrays = {"x": image.feats, "bbox": image.boxes, "image_w": 320, "image_h": 310}
    np.savez(tmp_path / "a.npz", **arrays, cls_prob=np.array([[70, 10, 20], [10, 90, 0]], np.uint8))
    assert read(tmp_path, tmp_path / "s")["a"].labels[0].tolist() == [[1, 0], [0, 1]]


def test_a_feature_map_and_the_vector_of_the_image_are_kept(tmp_path: Path) -> None:
    image, grid = Image(0, 2), np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    arrays = {"x": image.feats, "bbox": image.boxes, "image_w": 320, "image_h": 310}
    np.savez(tmp_path / "a.npz", **arrays, conv=grid, fc=np.ones(5, np.float32))
    store = read(tmp_path, tmp_path / "s")
    assert (store.layout.whole, store.layout.grid) == (5, (6, 4))
    torch.testing.assert_close(store["a"].grid, torch.from_numpy(grid.reshape(1, 6, 4)))


@pytest.mark.parametrize("given", ["cocobu_att", "."])
@pytest.mark.parametrize("ending", [".npz", ".npy"])
def test_att_box_and_fc_folders(tmp_path: Path, given: str, ending: str) -> None:
    data = tmp_path / "data"
    for name in ("cocobu_att", "cocobu_box", "cocobu_fc"):
        (data / name).mkdir(parents=True)
    for id, image in IMAGES.items():
        if ending == ".npz":
            np.savez_compressed(data / "cocobu_att" / id, feat=image.feats)
        else:
            np.save(data / "cocobu_att" / id, image.feats)
        np.save(data / "cocobu_box" / id, image.boxes)
        np.save(data / "cocobu_fc" / id, image.whole)
    store = read(data / given, tmp_path / "s", size_of=lambda id: (330.0, 340.0))
    for id, image in IMAGES.items():
        assert image.is_in(store[id]) and store[id].size.tolist() == [[330, 340]]
        whole = store[id].whole
        assert whole is not None and np.array_equal(whole[0].numpy(), image.whole)


@pytest.mark.parametrize("prefix", ["cocobu_", ""])
def test_folders_of_maps_and_vectors_beside_the_features(prefix: str, tmp_path: Path) -> None:
    names = {"feats": f"{prefix}att" if prefix else "features", "boxes": f"{prefix}box" if prefix else "boxes"}
    folders = {**names, "conv": f"{prefix}conv", "fc": f"{prefix}fc"}
    for name in folders.values():
        (tmp_path / "in" / name).mkdir(parents=True)
    for id, image in IMAGES.items():
        arrays = {"feats": image.feats, "boxes": image.boxes, "conv": np.ones((2, 3, 4)), "fc": image.whole}
        for kind, array in arrays.items():
            np.save(tmp_path / "in" / folders[kind] / id, array)
    store = read(tmp_path / "in", tmp_path / "s", size_of=lambda id: (330.0, 340.0))
    assert (store.layout.whole, store.layout.grid) == (9, (6, 4))


def test_features_beside_boxes_with_folders_below(tmp_path: Path) -> None:
    for name in ("features", "boxes"):
        (tmp_path / "in" / name / "train").mkdir(parents=True)
    np.save(tmp_path / "in" / "features" / "train" / "7.npy", IMAGES["1000"].feats)
    np.save(tmp_path / "in" / "boxes" / "train" / "7.npy", IMAGES["1000"].boxes)
    store = read(tmp_path / "in", tmp_path / "s", size_of=lambda id: (320.0, 310.0))
    assert list(store.ids) == ["train/7"] and IMAGES["1000"].is_in(store["train/7"])


def h5_groups(file: h5py.File) -> None:
    for id, image in IMAGES.items():
        group = file.create_group(id)
        group["features"], group["boxes"] = image.feats, image.boxes
        group.attrs["image_w"], group.attrs["image_h"] = 320, 310


def h5_datasets(file: h5py.File) -> None:
    for id, image in IMAGES.items():
        file[f"{id}_features"], file[f"{id}_boxes"], file[f"{id}_size"] = image.feats, image.boxes, [320, 310]
        file[f"{id}_grids"] = np.zeros((49, D))


def h5_tables(file: h5py.File) -> None:
    n = len(IMAGES)
    feats, boxes = np.zeros((n, 9, D), np.float32), np.zeros((n, 9, 4), np.float32)
    for i, image in enumerate(IMAGES.values()):
        feats[i, : len(image.feats)], boxes[i, : len(image.feats)] = image.feats, image.boxes
    file["image_id"], file["features"], file["boxes"] = [int(id) for id in IMAGES], feats, boxes
    file["num_boxes"] = [len(image.feats) for image in IMAGES.values()]
    file["image_w"], file["image_h"] = [320] * n, [310] * n


@pytest.mark.parametrize("write", [h5_groups, h5_datasets, h5_tables])
def test_hdf5(tmp_path: Path, write: Callable[[h5py.File], None]) -> None:
    with h5py.File(tmp_path / "in.hdf5", "w") as file:
        write(file)
    store = read(tmp_path / "in.hdf5", tmp_path / "s")
    assert list(store.ids) == list(IMAGES)
    assert all(image.is_in(store[id]) and store[id].size.tolist() == [[320, 310]] for id, image in IMAGES.items())


def write_gvd_images(path: Path) -> Path:
    (path / "features").mkdir(parents=True)
    dets = np.zeros((len(IMAGES), 10, 6))
    for row, (id, image) in enumerate(IMAGES.items()):
        n = len(image.boxes)
        dets[row, :n] = np.column_stack([image.boxes, image.labels + 1, image.scores])
        padded = np.zeros((10, D), np.float32)
        padded[:n] = image.feats
        np.save(path / "features" / id, padded)
    (path / "dic_flickr30k.json").write_text(
        json.dumps({"images": [{"id": int(id), "split": "train"} for id in IMAGES]})
    )
    with h5py.File(path / "detection.h5", "w") as file:
        file["dets_labels"], file["dets_num"] = dets, [10] * len(IMAGES)
        file["nms_num"] = [len(image.boxes) for image in IMAGES.values()]
    return path


def test_gvd_images(tmp_path: Path) -> None:
    store = read(write_gvd_images(tmp_path / "in"), tmp_path / "s", size_of=lambda id: (320.0, 310.0))
    for id, image in IMAGES.items():
        assert image.is_in(store[id]) and store[id].labels[0, :, 0].tolist() == image.labels.tolist()


def test_gvd_features_of_frames_are_the_map_and_their_mean_the_vector(tmp_path: Path) -> None:
    """Twenty frames of two kinds of features, in a folder beside: ten stretches of two frames."""
    folder = write_gvd_images(tmp_path / "in")
    (folder / "rgb").mkdir()
    rows = np.arange(20, dtype=np.float32)[:, None]
    for id in IMAGES:
        np.save(folder / "rgb" / f"{id}_resnet", rows.repeat(3, 1))
        np.save(folder / "rgb" / f"{id}_bn", -rows)
    store = read(folder, tmp_path / "s", size_of=lambda id: (320.0, 310.0))
    assert (store.layout.whole, store.layout.grid) == (4, (10, 4))
    found = store[next(iter(IMAGES))]
    assert found.grid is not None and found.grid[0, :, 0].tolist() == [2 * i + 0.5 for i in range(10)]
    assert found.whole is not None and found.whole[0].tolist() == [9.5, 9.5, 9.5, -9.5]


@pytest.mark.parametrize("shape", [(2, 3, 4), (6, 4)])
def test_gvd_images_may_have_a_feature_map_of_their_own_and_a_vector(shape: tuple[int, ...], tmp_path: Path) -> None:
    """All cells of the map are kept; without a vector it is their mean, as a captioner of GVD pools its map."""
    folder = write_gvd_images(tmp_path / "in")
    (folder / "maps").mkdir()
    cells = np.arange(24, dtype=np.float32)
    for id in IMAGES:
        np.save(folder / "maps" / f"{id}_conv", cells.reshape(shape))
    store = read(folder, tmp_path / "pooled", size_of=lambda id: (320.0, 310.0))
    assert (store.layout.whole, store.layout.grid) == (4, (6, 4))
    found = store[next(iter(IMAGES))]
    assert found.grid is not None and found.grid[0].flatten().tolist() == cells.tolist()
    assert found.whole is not None and found.whole[0].tolist() == [10, 11, 12, 13]
    for id in IMAGES:
        np.save(folder / "maps" / f"{id}_fc", np.full(7, 5.0))
    store = read(folder, tmp_path / "given", size_of=lambda id: (320.0, 310.0))
    assert store.layout.whole == 7 and store.layout.grid == (6, 4)


@pytest.mark.parametrize("wrong", [np.zeros(3), np.zeros((0, 4)), np.zeros((2, 4), bool)])
def test_a_feature_map_of_gvd_that_is_none_is_named(wrong: np.ndarray, tmp_path: Path) -> None:
    folder = write_gvd_images(tmp_path / "in")
    np.save(folder / "features" / "1000_conv", wrong)
    with pytest.raises(DataError, match="feature map must be|bool, not numbers"):
        read(folder, tmp_path / "s", size_of=lambda id: (320.0, 310.0))


def write_gvd_video(path: Path) -> tuple[list[str], list[Image]]:
    """Two frames of three regions; the other segment has one frame only."""
    (path / "fc6_feat_100rois").mkdir(parents=True)
    ids = ["v_a_segment_00", "v_a_segment_01"]
    clips = [Image(0, 6), Image(1, 3)]
    dets = np.zeros((2, 6, 7))
    for row, (id, clip) in enumerate(zip(ids, clips, strict=True)):
        n = len(clip.boxes)
        dets[row, :n] = np.column_stack([clip.boxes, np.arange(n) // 3, clip.labels + 1, clip.scores])
        np.save(path / "fc6_feat_100rois" / id, clip.feats.reshape(-1, 3, D))
    dets[0, 0, 5] = 0  # background
    (path / "dic_anet.json").write_text(json.dumps({"videos": [{"id": id} for id in ids]}))
    with h5py.File(path / "anet_detection.h5", "w") as file:
        file["dets_labels"], file["dets_num"], file["nms_num"] = dets, [6.0, 3.0], [6.0, 3.0]
    return ids, clips


def test_gvd_video_keeps_the_frames_and_takes_their_regions_in_turn(tmp_path: Path) -> None:
    """Two frames of three regions, the first of each, then the second; the other segment has one frame only."""
    path = tmp_path / "in"
    ids, clips = write_gvd_video(path)
    store = read(path, tmp_path / "s")
    turns = [0, 3, 1, 4, 2, 5]
    assert store[ids[0]].frame.tolist() == [[0, 1, 0, 1, 0, 1]] and store[ids[1]].frame.tolist() == [[0, 0, 0]]
    assert np.array_equal(store[ids[0]].feats[0].numpy(), clips[0].feats[turns]) and clips[1].is_in(store[ids[1]])
    assert np.array_equal(store[ids[0]].boxes[0].numpy(), clips[0].boxes[turns])
    assert store[ids[0]].labels[0, :, 0].tolist() == [-1, *clips[0].labels[turns[1:]].tolist()]
    assert store.batch(ids[:1], 2).frame.tolist() == [[0, 1, 0, 1]]  # a model that sees two regions sees two a frame
    assert store[ids[0]].size.tolist() == [[720, 720]]
    few = read(path, tmp_path / "few", per_frame=2)
    assert few[ids[0]].frame.tolist() == [[0, 1, 0, 1]] and few.fingerprint.parameters == {"per_frame": 2}


def test_gvd_features_of_the_frames_of_a_video_are_cut_to_each_segment(tmp_path: Path) -> None:
    """As released: a file for a video. Of 40 frames in 100 s the first segment has 20 to 40, the second one alone."""
    folder = tmp_path / "in"
    ids, _ = write_gvd_video(folder)
    (folder / "rgb_motion_1d").mkdir()
    rows = np.arange(40, dtype=np.float32)[:, None]
    np.save(folder / "rgb_motion_1d" / "a_resnet", rows.repeat(3, 1))
    np.save(folder / "rgb_motion_1d" / "a_bn", -rows)
    with pytest.raises(
        DataError, match="put the reference of its split .*anet_entities_cleaned_class_thresh50_trainval.json"
    ):
        read(folder, tmp_path / "without")
    segments = {"0": {"timestamps": [50, 100]}, "1": {"timestamps": [0, 1]}}
    reference = {"annotations": {"v_a": {"duration": 100, "segments": segments}}}
    (folder / "anet_entities.json").write_text(json.dumps(reference))
    store = read(folder, tmp_path / "s")
    first, second = (store[id] for id in ids)
    assert first.grid is not None and first.grid[0, :, 0].tolist() == [20.5 + 2 * i for i in range(10)]
    assert first.whole is not None and first.whole[0].tolist() == [29.5, 29.5, 29.5, -29.5]
    assert second.grid is not None and not second.grid.any()
    for duration in (0, 10**400):
        reference["annotations"]["v_a"]["duration"] = duration
        (folder / "anet_entities.json").write_text(json.dumps(reference))
        with pytest.raises(DataError, match="not a reference of ActivityNet-Entities"):
            read(folder, tmp_path / "damaged")


@pytest.mark.parametrize("wrong", [np.float32(3), np.array([["a"]]), np.ones((2, 3), complex), np.ones((2, 0))])
def test_gvd_features_of_frames_that_are_none_are_named(wrong: np.ndarray, tmp_path: Path) -> None:
    ids, _ = write_gvd_video(tmp_path / "in")
    np.save(tmp_path / "in" / "fc6_feat_100rois" / f"{ids[0]}_resnet", wrong)
    with pytest.raises(DataError, match=r"must be \(frames, size\)|not numbers"):
        read(tmp_path / "in", tmp_path / "s")


def test_the_regions_of_cyclical_training_are_imported_by_a_command(tmp_path: Path) -> None:
    ids, _ = write_gvd_video(tmp_path / "in")
    out = ["--out", str(tmp_path / "s"), "--sure", "0.2", "--per-frame", "2"]
    assert main(["regions", "import", str(tmp_path / "in"), *out]) == 0
    store = Store.open(tmp_path / "s")
    assert store.fingerprint.parameters == {"sure": 0.2, "per_frame": 2}
    for id in ids:
        assert store[id].scores.min() > 0.2 and store[id].frame[0].bincount().max() <= 2


def test_regions_that_no_class_is_sure_of_are_left_out_before_frames_are_counted() -> None:
    """Scores above 0.2 stay: of frame 0 regions 1 and 2, of frame 1 region 4. One a frame: regions 1 and 4."""
    found = Regions.of(
        torch.arange(5.0)[:, None],
        torch.tensor([[0.0, 0.0, 5.0, 5.0]]).repeat(5, 1),
        (10.0, 10.0),
        frame=torch.tensor([0, 0, 0, 1, 1]),
        labels=torch.zeros(5, 1, dtype=torch.int64),
        scores=torch.tensor([[0.2], [0.9], [0.3], [0.1], [0.5]]),
    )
    assert importers.kept(found, 0.2).feats.flatten().tolist() == [1, 4, 2]
    assert importers.kept(found, 0.2, 1).feats.flatten().tolist() == [1, 4]
    assert importers.kept(found).feats.flatten().tolist() == [0, 3, 1, 4, 2]
    assert importers.kept(found, 0.95).feats.flatten().tolist() == [1]  # the best one, where none is sure


def test_gvd_video_with_a_table_per_frame_and_sizes(tmp_path: Path) -> None:
    path = tmp_path / "in"
    (path / "feats").mkdir(parents=True)
    clip = Image(0, 6)
    rows = np.column_stack([clip.boxes, clip.labels + 1, clip.scores]).reshape(1, 2, 3, 6)
    np.save(path / "feats" / "v_b_segment_00", clip.feats.reshape(2, 3, D))
    (path / "dic_anet.json").write_text(json.dumps({"videos": [{"id": "v_b_segment_00"}]}))
    with h5py.File(path / "d.h5", "w") as file:
        file["dets_labels"], file["dets_num"], file["hw"] = rows, [[2, 3]], [[405.0, 720.0]]
    found = read(path, tmp_path / "s")["v_b_segment_00"]
    assert found.frame.tolist() == [[0, 1, 0, 1, 1]] and found.size.tolist() == [[720, 405]]
    assert np.array_equal(found.feats[0].numpy(), clip.feats[[0, 3, 1, 4, 5]])


# ---------------------------------------------------------------- going on, leaving out


def test_an_import_goes_on_and_skips_what_is_there(tmp_path: Path) -> None:
    whole = read(write_tsv(tmp_path / "t.tsv"), tmp_path / "whole")
    steps = importers.copy(importers.entries(tmp_path / "t.tsv"), tmp_path / "s", "theirs")
    for _ in range(3):
        next(steps)
    steps.close()  # stopped
    again = list(importers.copy(importers.entries(tmp_path / "t.tsv"), tmp_path / "s", "theirs"))
    assert [step.added for step in again] == [False, False, False, True, True]
    assert again[-1].share == 1.0
    assert (tmp_path / "s" / "regions.bin").read_bytes() == (whole.path / "regions.bin").read_bytes()


BAD_ROWS = {
    "not base64": six("9", Image(1)).replace(b"=", b"!").replace(b"A", b"!"),
    "columns": b"9\t320\t310\t3\n",
    "not a number": six("9", Image(1)).replace(b"\t320", b"\twide"),
    "do not fit": six("9", Image(1)).replace(b"\t3\t", b"\t77\t"),
    "left, top, right, bottom": b"\t".join(
        [b"9", b"320", b"310", b"1", b64(np.array([9, 9, 1, 1], np.float32)), b64(np.zeros(D, np.float32))]
    ),
    "outside of an image": six("9", Image(1)).replace(b"\t320", b"\t20"),
    "0 x 310 pixels": six("9", Image(1)).replace(b"\t320", b"\t0"),
    "half precision": b"\t".join(
        [b"9", b"320", b"310", b"1", b64(np.ones(4, np.float32)), b64(np.full(D, 1e6, np.float32))]
    ),
    "features have 7 numbers": b"\t".join(
        [b"9", b"320", b"310", b"1", b64(np.ones(4, np.float32)), b64(np.zeros(7, np.float32))]
    ),
}


@pytest.mark.parametrize("says", BAD_ROWS)
def test_a_bad_row_is_named_or_left_out(tmp_path: Path, says: str) -> None:
    good = [six(id, image) for id, image in IMAGES.items()]
    (tmp_path / "t.tsv").write_bytes(b"".join([good[0], BAD_ROWS[says].rstrip(b"\n") + b"\n", good[1]]))
    with pytest.raises(DataError, match=f"t.tsv, line 2: .*{says}"):
        read(tmp_path / "t.tsv", tmp_path / "strict")
    steps = list(importers.copy(importers.entries(tmp_path / "t.tsv"), tmp_path / "s", "theirs", skip_bad=True))
    assert [step.added for step in steps] == [True, False, True] and "line 2" in str(steps[1].problem)
    assert list(Store.open(tmp_path / "s").ids) == ["1000", "1001"]


def test_a_bad_first_row_can_be_left_out_too(tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_bytes(BAD_ROWS["not a number"] + six("1000", IMAGES["1000"]))
    assert list(read(tmp_path / "t.tsv", tmp_path / "s", skip_bad=True).ids) == ["1000"]


def test_a_source_without_a_good_image_says_why(tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_bytes(BAD_ROWS["not a number"] * 2)
    with pytest.raises(DataError, match="line 1"):
        read(tmp_path / "t.tsv", tmp_path / "s", skip_bad=True)
    (tmp_path / "t.tsv").write_bytes(b"")
    with pytest.raises(DataError, match="holds no images"):
        read(tmp_path / "t.tsv", tmp_path / "s")
    assert not (tmp_path / "s").exists()


def test_a_cut_tsv_names_its_last_line(tmp_path: Path) -> None:
    write_tsv(tmp_path / "t.tsv")
    data = (tmp_path / "t.tsv").read_bytes()
    (tmp_path / "t.tsv").write_bytes(data[:-30])
    with pytest.raises(DataError, match="t.tsv, line 5"):
        read(tmp_path / "t.tsv", tmp_path / "s")


def test_a_missing_size_says_where_to_get_it(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=IMAGES["1000"].feats, bbox=IMAGES["1000"].boxes)
    with pytest.raises(DataError, match="a.npz: the size of the image is not recorded; give --images"):
        read(tmp_path, tmp_path / "s")


def test_pickled_arrays_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.array([{"feats": 1}], dtype=object), bbox=IMAGES["1000"].boxes)
    with pytest.raises(DataError, match="a.npz: not a readable archive of arrays: .*pickles"):
        read(tmp_path, tmp_path / "s")


def test_a_zip_bomb_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "a.npz", x=np.zeros((2, 1 << 25), np.int8), bbox=np.zeros((2, 4)))
    assert (tmp_path / "a.npz").stat().st_size < 70_000
    with pytest.raises(DataError, match=r"a.npz: \(2, 33554432\) numbers for one image; at most 134,217,728 bytes"):
        read(tmp_path, tmp_path / "s")


@pytest.mark.parametrize(
    ("arrays", "says"),
    [
        ({"x": np.zeros((2, D)), "image_w": 9, "image_h": 9}, "needs features"),
        ({"x": np.zeros((2, D)), "bbox": np.zeros((3, 4)), "image_w": 9, "image_h": 9}, "do not fit 3 boxes"),
        ({"x": np.zeros((2, D)), "bbox": np.zeros((2, 5)), "image_w": 9, "image_h": 9}, r"boxes must be \(R, 4\)"),
        ({"x": np.zeros((0, D)), "bbox": np.zeros((0, 4)), "image_w": 9, "image_h": 9}, "R > 0"),
        ({"x": np.array([["a"]]), "bbox": np.zeros((1, 4)), "image_w": 9, "image_h": 9}, "not numbers"),
        ({"x": np.zeros((1, D)), "bbox": np.full((1, 4), np.nan), "image_w": 9, "image_h": 9}, "not finite"),
        ({"x": np.zeros((1, D)), "bbox": np.zeros((1, 4)), "image_w": np.nan, "image_h": 9}, "not a number"),
        ({"x": np.zeros((1, D)), "bbox": np.zeros((1, 4)), "size": [9, 9], "num_bbox": 2}, "says 2 boxes, holds 1"),
        ({"x": np.zeros((1, D)), "bbox": np.zeros((1, 4)), "size": [9, 9], "labels": [1, 2]}, "2 labels for 1"),
        ({"x": np.zeros((1, D)), "bbox": np.zeros((1, 4)), "size": [9, 9], "labels": [0.5]}, "not whole numbers"),
        (
            {"x": np.zeros((1, D)), "bbox": np.zeros((1, 4)), "size": [9, 9], "labels": [1], "scores": [1, 2]},
            "2 scores",
        ),
        ({"x": np.full((1, D), 1e300), "bbox": np.zeros((1, 4)), "size": [9, 9]}, "half precision"),
    ],
)
def test_arrays_that_do_not_fit_name_the_file(tmp_path: Path, arrays: dict[str, np.ndarray], says: str) -> None:
    np.savez(tmp_path / "bad.npz", **arrays)
    with pytest.raises(DataError, match=f"bad.npz: .*{says}"):
        read(tmp_path, tmp_path / "s")


def test_a_missing_box_file_is_named(tmp_path: Path) -> None:
    for name in ("features", "boxes"):
        (tmp_path / name).mkdir()
    np.save(tmp_path / "features" / "7.npy", IMAGES["1000"].feats)
    with pytest.raises(DataError, match="its boxes are missing, .*boxes/7.npy"):
        read(tmp_path, tmp_path / "s")


def test_gvd_features_that_do_not_fit_their_detections_are_named(tmp_path: Path) -> None:
    path = write_gvd_images(tmp_path / "in")
    np.save(path / "features" / "1001.npy", np.zeros((2, D), np.float32))
    with pytest.raises(DataError, match="row 1: .*2 features"):
        read(path, tmp_path / "s", size_of=lambda id: (320.0, 310.0))
    (path / "features" / "1001.npy").unlink()
    with pytest.raises(DataError, match="row 1: its features are missing"):
        read(path, tmp_path / "s", size_of=lambda id: (320.0, 310.0))
    (path / "dic_flickr30k.json").write_text('{"images": [')
    with pytest.raises(DataError, match="dic_flickr30k.json"):
        read(path, tmp_path / "s")


def test_an_hdf5_file_without_regions_says_what_it_expected(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["pixels"] = np.zeros((3, 2, 2))
    with pytest.raises(DataError, match="a.h5: expected an HDF5 file.*; has pixels"):
        read(tmp_path / "a.h5", tmp_path / "s")


def test_unknown_sources_and_formats_say_what_there_is(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(DataError, match="not a known format of regions.*tsv: .*gvd: .*hdf5: .*arrays: "):
        importers.entries(tmp_path / "notes.txt")
    with pytest.raises(GroundlingError, match="unknown format 'xlsx'; there are auto, tsv"):
        importers.entries(tmp_path / "notes.txt", "xlsx")
    with pytest.raises(DataError, match="no such file"):
        importers.entries(tmp_path / "nothing")


FUZZ = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def damaged(data: bytes, at: float, new: bytes, cut: bool) -> bytes:
    start = int(at * len(data))
    return data[:start] + new + (b"" if cut else data[start + len(new) :])


@FUZZ
@given(
    at=st.floats(0, 1), new=st.binary(max_size=8), cut=st.booleans(), kind=st.sampled_from(["tsv", "npz", "npy", "h5"])
)
def test_damaged_files_raise_data_errors_alone(
    tmp_path_factory: pytest.TempPathFactory, at: float, new: bytes, cut: bool, kind: str
) -> None:
    path = tmp_path_factory.mktemp("fuzz")
    source = path / "in"
    if kind == "tsv":
        source = victim = write_tsv(path / "in.tsv")
    elif kind == "npz":
        source.mkdir()
        npz_padded(source, "7", IMAGES["1000"])
        victim = source / "7.npz"
    elif kind == "npy":
        source = write_gvd_images(source)
        victim = source / "features" / "1002.npy"
    else:
        source = victim = path / "in.h5"
        with h5py.File(source, "w") as file:
            h5_groups(file)
    victim.write_bytes(damaged(victim.read_bytes(), at, new, cut))
    with suppress(DataError):
        read(source, path / "s", skip_bad=True, size_of=lambda id: (320.0, 310.0))


# ---------------------------------------------------------------- the command


def test_the_command_imports_and_tells(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_tsv(tmp_path / "trainval_36.tsv")
    (tmp_path / "names.txt").write_text("cat\ndog\n")
    store = str(tmp_path / "s")
    labels = ["--labels", str(tmp_path / "names.txt")]
    assert main(["regions", "import", str(tmp_path / "trainval_36.tsv"), "--out", store, *labels]) == 0
    assert "5 images added as 'trainval_36'" in capsys.readouterr().out
    assert main(["regions", "import", str(tmp_path / "trainval_36.tsv"), "--out", store, *labels]) == 0
    assert "0 images added as 'trainval_36'; 5 were there before" in capsys.readouterr().out
    assert main(["regions", "info", store]) == 0
    told = capsys.readouterr().out
    assert "images                   5" in told and "trainval_36" in told and "2 classes" in told
    assert main(["regions", "info", store, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["fingerprint"]["labels"] == ["cat", "dog"]
    assert main(["regions", "check", store]) == 0
    assert "5 images, 0 damaged" in capsys.readouterr().out


def test_the_command_shows_the_image_vector_and_the_feature_map(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    image = Image(0, 2)
    arrays = {"x": image.feats, "bbox": image.boxes, "image_w": 320, "image_h": 310}
    np.savez(tmp_path / "a.npz", **arrays, conv=np.ones((2, 3, 4), np.float32), fc=np.ones(5, np.float32))
    read(tmp_path, tmp_path / "s")
    assert main(["regions", "info", str(tmp_path / "s"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["image vector"], told["grid"]) == (5, [6, 4])


def test_the_command_leaves_out_bad_rows_when_told_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "t.tsv").write_bytes(six("1000", IMAGES["1000"]) + BAD_ROWS["columns"])
    given = ["regions", "import", str(tmp_path / "t.tsv"), "--out", str(tmp_path / "s")]
    assert main(given) == 2
    assert "t.tsv, line 2: 4 columns" in capsys.readouterr().err
    assert main([*given, "--skip-bad"]) == 0
    printed = capsys.readouterr()
    assert "0 images added" in printed.out and "1 images left out" in printed.err  # the good one was kept from before


def test_the_command_names_damaged_images(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    read(write_tsv(tmp_path / "t.tsv"), tmp_path / "s")
    data = bytearray((tmp_path / "s" / "regions.bin").read_bytes())
    data[-1] ^= 1
    (tmp_path / "s" / "regions.bin").write_bytes(data)
    assert main(["regions", "check", str(tmp_path / "s")]) == 1
    printed = capsys.readouterr()
    assert "5 images, 1 damaged" in printed.out and "image '1004'" in printed.err and "'1003'" not in printed.err


def test_the_command_looks_up_sizes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from PIL import Image as Picture

    (tmp_path / "photos").mkdir()
    (tmp_path / "in").mkdir()
    for id, name in {"a": "a.png", "1001": "COCO_val2014_000000001001.jpg"}.items():
        Picture.new("RGB", (333, 344)).save(tmp_path / "photos" / name)
        np.savez(tmp_path / "in" / f"{id}.npz", x=IMAGES["1000"].feats, bbox=IMAGES["1000"].boxes)
    np.savez(tmp_path / "in" / "elsewhere.npz", x=IMAGES["1000"].feats, bbox=IMAGES["1000"].boxes)
    given = ["regions", "import", str(tmp_path / "in"), "--out", str(tmp_path / "s")]
    more = ["--images", str(tmp_path / "photos"), "--size", "400x401"]
    assert main([*given, *more]) == 0
    store = Store.open(tmp_path / "s")
    assert [store[id].size[0].tolist() for id in ("a", "1001", "elsewhere")] == [[333, 344], [333, 344], [400, 401]]
