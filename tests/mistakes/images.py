"""Mistakes in datasets of images: held-out images, shuffled pixels, measured moments and drawings."""

from __future__ import annotations

from tests.mistakes._mistake import Mistake

MISTAKES = [
    Mistake(
        "copies of a held-out image left in training",
        "_cut",
        "end and keys[end] == keys[end - 1]",
        "False",
        "tasks/test_images.py::test_training_never_sees_what_is_held_out",
    ),
    Mistake(
        "validation taken from the test images",
        "Images._split",
        'found[split], found["train"] = _cut(*found["train"], of)',
        'found[split], found["test"] = _cut(*found.get("test", found["train"]), of)',
        "tasks/test_images.py::test_splits_that_a_source_lacks_are_held_out_of_its_training_images",
    ),
    Mistake(
        "held-out images left in training as well",
        "Images._split",
        'found[split], found["train"] = _cut(*found["train"], of)',
        'found[split], _ = _cut(*found["train"], of)',
        "tasks/test_images.py::test_training_never_sees_what_is_held_out",
    ),
    Mistake(
        "rows held out in the order of the source",
        "_ordered",
        "key=lambda i: (keys[i], part.labels[i])",
        "key=lambda i: i",
        "tasks/test_images.py::test_order_and_format_of_a_source_do_not_matter",
    ),
    Mistake(
        "channels shuffled independently when pixels are shuffled",
        "_shuffled",
        "return np.take_along_axis(flat, order[:, :, None], axis=1).reshape(pixels.shape)",
        """
        order = np.stack([np.roll(order, c, axis=1) for c in range(channels)], axis=2)
        return np.take_along_axis(flat, order, axis=1).reshape(pixels.shape)
        """,
        "tasks/test_images.py::test_shuffled_moves_whole_pixels",
    ),
    Mistake(
        "one order of pixels for all images",
        "_shuffled",
        "np.take_along_axis(flat, order[:, :, None], axis=1)",
        "np.take_along_axis(flat, order[:1, :, None], axis=1)",
        "tasks/test_images.py::test_shuffled_moves_whole_pixels",
    ),
    Mistake(
        "moments of all splits instead of the training images",
        "Images.moments",
        'flat = self.splits(seed)["train"].pixels[:rows].reshape(-1, self.image[2])',
        "flat = np.concatenate([s.pixels for s in self.splits(seed).values()]).reshape(-1, self.image[2])",
        "tasks/test_images.py::test_moments_are_of_the_training_images_alone",
    ),
    Mistake(
        "labels off by one",
        "table",
        "pa.array(labels, pa.int64())",
        "pa.array(np.asarray(labels) + 1, pa.int64())",
        "data/test_hugging_face.py::test_load_dataset_of_images",
    ),
    Mistake(
        "a fingerprint that does not see how wide an image is",
        "content",
        'f"{row} {label} {one.shape} "',
        'f"{row} {label} "',
        "tasks/test_images.py::test_the_fingerprint_tells_apart_what_has_the_same_bytes",
    ),
    Mistake(
        "a null image read as the bytes that its buffer holds",
        "pixels",
        'zip(part["row"].to_pylist(), part["image"].to_pylist(), strict=True)',
        'zip(part["row"].to_pylist(), [{"bytes": b or b""} for b in '
        'part["image"].combine_chunks().field("bytes").to_pylist()], strict=True)',
        "tasks/test_images.py::test_a_damaged_image_is_one_error",
    ),
    Mistake(
        "the upper and the lower row of pixels exchanged",
        "_coloured",
        "zip_longest(colours[::2], colours[1::2])",
        "zip_longest(colours[1::2], colours[::2])",
        "cli/test_image_mosaic.py::test_two_rows_of_pixels_a_line",
    ),
]
