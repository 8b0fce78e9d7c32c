"""A session's language: kept once it is sure, never because of one unsure word."""

import pytest

from appliance.turns.language import KeptLanguage


@pytest.mark.parametrize(
    ("turns", "kept"),
    [
        ([], None),
        ([("de", 0.95)], "de"),
        ([("de", 0.6)], None),
        ([("de", 0.6), ("de", 0.55)], "de"),
        ([("de", 0.6), ("nl", 0.6)], None),
        ([("cy", 0.3), ("cy", 0.3), ("cy", 0.3)], None),
        ([("de", 0.6), ("cy", 0.3), ("de", 0.6)], "de"),
        ([("fr", 0.9), ("en", 0.99), ("en", 0.99)], "fr"),
    ],
)
def test_kept_once_it_is_sure(turns: list[tuple[str, float]], kept: str | None) -> None:
    language = KeptLanguage()
    for code, sure in turns:
        language.heard(code, sure)
    assert language.language == kept
