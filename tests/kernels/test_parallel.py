"""Vocabulary-parallel heads, simulated: shards of one head reduced apart and merged."""

from itertools import pairwise

import pytest
import torch

from stepgauge.kernels import lm_partials, merge_partials
from tests.kernels.heads import EVERY, FLOATS, gap, head, per_token

BF16 = torch.bfloat16


def merged(case, cuts, backend, want=EVERY, k=4):
    vocab = case.more.get("vocab_valid", len(case.weight))
    bent = {n: v for n, v in case.more.items() if n != "vocab_valid"}
    parts = []
    for first, end in pairwise(cuts):
        bias = None if case.bias is None else case.bias[first:end]
        parts.append(
            lm_partials(
                case.hidden,
                case.weight[first:end],
                case.targets,
                first=first,
                vocab=vocab,
                bias=bias,
                k=k,
                backend=backend,
                **bent,
            )
        )
    return merge_partials(parts, want=want)


@pytest.mark.parametrize("cuts", [[0, 1301], [0, 700, 1301], [0, 13, 400, 1300, 1301]], ids=["1", "2", "4"])
def test_shards_make_the_whole(cuts, backend):
    case = head(19, 24, 1301, with_bias=True, ignored=4, softcap=20.0, inv_temperature=per_token(19))
    k = 1 if len(cuts) > 3 else 4
    got, exact = merged(case, cuts, backend, k=k), case.exact(k=k)
    for statistic in FLOATS:
        assert gap(getattr(got, statistic), getattr(exact, statistic)) <= 2e-5, statistic
    assert torch.equal(got.argmax, exact.argmax)
    assert torch.equal(got.topk_ids, exact.topk_ids)


def test_padding_of_the_last_shard_is_left_out(backend):
    case = head(9, 24, 1301, vocab_valid=1200)
    assert gap(merged(case, [0, 700, 1301], backend).self_certainty, case.exact().self_certainty) <= 2e-5


def test_rounded_shards_keep_their_labels(backend):
    """A label outside a shard adds nothing there, also where labels are recomputed."""
    case = head(19, 24, 1301, dtype=BF16)
    assert gap(merged(case, [0, 500, 1301], backend).logp, case.exact().logp) <= 2e-4


def test_errors():
    case = head(3, 4, 20)
    with pytest.raises(ValueError, match="got none"):
        merge_partials([])
    with pytest.raises(ValueError, match="k > 0"):
        merged(case, [0, 10, 20], "torch", want=("argmax",), k=0)
    with pytest.raises(ValueError, match=r"first must be in \[0, 20\)"):
        lm_partials(case.hidden, case.weight, case.targets, first=20, vocab=20)
    with pytest.raises(ValueError, match="backend must be 'torch' or 'triton'"):
        lm_partials(case.hidden, case.weight, case.targets, first=0, vocab=20, backend="reference")
