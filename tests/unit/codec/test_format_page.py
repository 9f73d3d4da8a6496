"""docs/format.md says what the code does: the same extension codes, limits and digests."""

from __future__ import annotations

import re
from pathlib import Path

from perdure.codec.digest import SIZE
from perdure.codec.fault import MESSAGE_MOST, TRACE_MOST
from perdure.codec.frame import BODY_MOST, COMPRESS_FROM, FORMAT
from perdure.codec.plain import MAX_DEPTH
from perdure.codec.value import Code

PAGE = (Path(__file__).parents[3] / "docs" / "format.md").read_text("utf-8")


def test_the_page_has_each_extension_once() -> None:
    table = PAGE[PAGE.index("| code | kind | data |") :].split("\n\n", 1)[0]
    codes = [int(code) for code in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)]
    assert codes == sorted(number for name, number in vars(Code).items() if name.isupper())


def test_the_page_has_the_limits() -> None:
    for said in (
        f"at most {MAX_DEPTH} levels",
        f"version of the format: {FORMAT}",
        f"{COMPRESS_FROM:,} bytes or more",
        "at most 2³⁰ bytes",
        f"BLAKE2b with {SIZE} bytes",
        f"at most {MESSAGE_MOST:,} characters",
        f"at most {TRACE_MOST:,} characters",
    ):
        assert said in PAGE, said
    assert BODY_MOST == 2**30
