"""EMNIST (Cohen et al. 2017), in the idx format of its gzip archive, whose images lie transposed."""

from __future__ import annotations

from pathlib import Path
from string import ascii_lowercase, ascii_uppercase, digits

from igfl.data.files import Known, find_folder, read_idx
from igfl.data.mnist import images_and_labels
from igfl.data.sets import DataSet
from igfl.names import unknown

FOLDERS = ["emnist", "emnist/gzip", "gzip"]
_MERGED = digits + ascii_uppercase + "abdefghnqrt"  # the lower-case letters that do not look like their capitals
CLASSES = {
    "byclass": digits + ascii_uppercase + ascii_lowercase,
    "bymerge": _MERGED,
    "balanced": _MERGED,
    "letters": " " + ascii_lowercase,  # its labels start at 1
    "digits": digits,
    "mnist": digits,
}
_ROWS = {
    "byclass": (697_932, 116_323), "bymerge": (697_932, 116_323), "balanced": (112_800, 18_800),
    "letters": (124_800, 20_800), "digits": (240_000, 40_000), "mnist": (60_000, 10_000),
}  # fmt: skip
_SHA256 = {  # of the gzipped files: train images, train labels, test images, test labels
    "byclass": (
        "9e21987f03a6eb8b870187e785883ddad96947299587908f1a7ec2ca0f4be5f0",
        "f7ef403d48dc18a89dae0d83d11ee69cecb6e1c12c3a961d03712e495c02a8fa",
        "5ec835bd5d5b1a66378a132e727fef20fe994b3cc666899befcca5ac766f50cd",
        "501e305eeeacb093b162592d80e8a2632040872360fa6d85cfcb2200d91ca92a",
    ),
    "bymerge": (
        "39bf8c68037dad40db35348895f7e4e056e8c0a005ab78869c9fbc2c96e947be",
        "2c47293b9e62d6abf6ad05fbf67e40baa32adfd380b8d7b44dcc35534b64e1f1",
        "5e5815ec1b522089134435f7c55e75a00960b58414793593ffff23efc0821683",
        "8bda1516255683ba9071e141947ca0c91a911176065cdd6259b0b4d8dc5b5f35",
    ),
    "balanced": (
        "74295e75e4e9fa2c102147460ee7eb763653d5132d883a84fb88932bfb8d2db4",
        "b46d41e5156a0a8aaaa4d18979fdd1588850fa8571018acffd5d93b325a7d6ed",
        "117fc12b015e37ea98bfb2cbba3f77c3782c056cdbd219b87abfc8661d7135db",
        "a67cac948379b67270b9a4d0a01c8ec661598accf2f2b1964340b7c83cb175cd",
    ),
    "letters": (
        "6288f418a917e007bf5fddb823a2dc7a5c6a35031401b93292a539cb12bd881f",
        "9759af91ea6bccdf07a6040fd085861f2ec88e37f7c3f5760f6feb57106fbe5c",
        "50f0e93d75b99b463e9760b8345866f22587fa2c2fba472730a5ba09c693412d",
        "924955c31fe7fd809b7303b5c0141282955f4b8390c74cdfd5d80435e0f4b4cb",
    ),
    "digits": (
        "f7c95004d14d81af89522e67d8f0c781dfb3bd544181c81bfe1eb6b41c35b726",
        "6638a6ff5fe2eefd9cca2471995b46c82986b8e4b2a70d2f5ce8e05d7edb319e",
        "20ebe43509264f7639d37c835a3f0b009e90b29e00a099a03101abe1644a3f63",
        "bad1834c45d5988e270b99d43b13edc3fd898f658ffbc2caf2846ef27f7b05b0",
    ),
    "mnist": (
        "5f9942f441031c0f1f2e4d162059fd6e19ea808b34c328b6d16cab0ed24c78f2",
        "00c6d3c2342fdffb1711e0b5656cac4ce5862d2826399d383a9bac07d612e9f8",
        "b25640fa9e356c618132f5df347c95ef5bae6d9c2596be1de40f7e0ae1c3eac6",
        "bcc5385d38f083dba046f5f756e99b32f5ea7fad122c6243c71c2239873065ca",
    ),
}


def known_files(split: str) -> dict[str, Known]:
    """The four files of a split, and what is known of them."""
    hashes = dict(zip(("train-images", "train-labels", "test-images", "test-labels"), _SHA256[split], strict=True))
    found = {}
    for part, rows in zip(("train", "test"), _ROWS[split], strict=True):
        for kind, shape, suffix in (("images", (rows, 28, 28), "idx3"), ("labels", (rows,), "idx1")):
            name = f"emnist-{split}-{part}-{kind}-{suffix}-ubyte"
            found[f"{part}-{kind}"] = Known(name=name, shape=shape, packed_sha256=hashes[f"{part}-{kind}"])
    return found


def emnist(path: str | Path | None = None, split: str = "byclass", known: dict[str, Known] | None = None) -> DataSet:
    """Handwritten characters of 28x28; `byclass` is the paper's: 697,932 and 116,323 of 62 classes."""
    if split not in CLASSES:
        raise unknown("split", split, CLASSES)
    known = known or known_files(split)
    folder = find_folder("emnist", known["train-images"].name, FOLDERS, path)
    parts = {part: read_idx(folder, file, "emnist") for part, file in known.items()}
    for part in ("train-images", "test-images"):
        parts[part] = parts[part].swapaxes(1, 2)
    return images_and_labels("emnist", parts, tuple(CLASSES[split]), folder)
