"""The section about the image."""

from bench.image import Start, section


def test_the_section_states_sizes_and_medians() -> None:
    """Sizes in MB, times in ms, each figure with its spread."""
    starts = [Start(400, 300, 60, 45), Start(500, 310, 61, 46), Start(450, 305, 60, 45)]
    text = section(starts, 33_500_000, 116_000_000, {"date": "today"})
    assert "| size, compressed | 33.5 MB |" in text
    assert "| size, unpacked | 116.0 MB |" in text
    assert "| ready | 450 (400 to 500) ms |" in text
    assert "| resident at rest | 60.0 (60.0 to 61.0) MB |" in text
    assert "| date | today |" in text
