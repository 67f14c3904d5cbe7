import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepgauge.lm import token_batches


@given(st.lists(st.integers(0, 50), max_size=40), st.integers(1, 120))
def test_every_item_once_within_the_budget(lengths, max_tokens):
    batches = token_batches(lengths, max_tokens)
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        padded = len(batch) * max(lengths[index] for index in batch)
        assert padded <= max_tokens or len(batch) == 1


def test_a_budget_below_one():
    with pytest.raises(ValueError, match="must be at least 1, got 0"):
        token_batches([1], 0)
