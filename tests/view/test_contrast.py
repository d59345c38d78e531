"""Every text colour is readable on every background of rows, chips and buttons: WCAG's 4.5 to 1.

Light and dark.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from xlanb.view import assets

CSS = (Path(assets.__file__).parent / "step" / "step.css").read_text(encoding="utf-8")
WORDS = "text muted faint accent add rem chg tk-op tk-type tk-num tk-str tk-key tk-name tk-com".split()
GROUNDS = "bg panel raised accent-soft add-soft rem-soft chg-soft".split()


def colours(theme: str) -> dict[str, str]:
    blocks = [re.search(r"\.root \{(.*?)\n\}", CSS, re.DOTALL)]
    if theme == "dark":
        blocks.append(re.search(r'\.root\[data-theme="dark"\] \{(.*?)\n\}', CSS, re.DOTALL))
    pattern = re.compile(r"--([\w-]+):\s*(?:var\([^,]+,\s*)?(#[0-9a-fA-F]{6})")
    return {name: value for block in blocks if block for name, value in pattern.findall(block[1])}


def luminance(colour: str) -> float:
    channels = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_words_stand_out_from_their_ground(theme: str) -> None:
    known = colours(theme)
    pale = [
        f"--{word} on --{ground}: {contrast(known[word], known[ground]):.2f}"
        for word in WORDS
        for ground in GROUNDS
        if contrast(known[word], known[ground]) < 4.5
    ]
    assert pale == []


def test_contrast_is_that_of_wcag() -> None:
    assert contrast("#ffffff", "#000000") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)
