"""Worked cases of losses, tree search and ProcessBench's measure, onto the public functions. Names only, no maths."""

from __future__ import annotations

import torch

from stepgauge.evaluate.processbench import processbench_f1
from stepgauge.prm.labelling import rstar_q
from stepgauge.prm.training import critic_rm_loss, implicit_ce_loss, implicit_dpo_loss, ppm_pairwise_loss


def _implicit_prm_ce_loss(inputs, expected):
    ratio = torch.tensor([inputs["sum_logratio"]], dtype=torch.float64, requires_grad=True)
    loss = implicit_ce_loss(ratio, torch.tensor([inputs["label"]]), beta=inputs["beta"])
    loss.sum().backward()
    return {"loss": loss.item(), "grad_wrt_sum_logratio": ratio.grad.item()}


def _implicit_prm_dpo_loss(inputs, expected):
    chosen = torch.tensor([inputs["chosen_sum_logratio"]], dtype=torch.float64, requires_grad=True)
    rejected = torch.tensor([inputs["rejected_sum_logratio"]], dtype=torch.float64)
    loss = implicit_dpo_loss(chosen, rejected, beta=inputs["beta"])
    loss.sum().backward()
    return {"loss": loss.item(), "grad_chosen": chosen.grad.item(), "accuracy": int(chosen.item() > rejected.item())}


def _ppm_pairwise(inputs, expected):
    positive, negative = (torch.tensor(inputs[name], dtype=torch.float64) for name in ("pos", "neg"))
    loss = ppm_pairwise_loss(positive, negative)
    return {"loss": None if loss is None else loss.item(), "n_pairs": len(positive) * len(negative)}


def _rstar_q(inputs, expected):
    found = rstar_q(inputs["backups"], inputs["parent_visits"], c=inputs["c"])
    return {"q": found.q, "visits": found.visits, "uct": found.uct, "repo_puct": found.puct}


def _critic_rm_loss(inputs, expected):
    names = ("reward_chosen", "reward_rejected", "critique_nlls")
    tensors = [torch.tensor(inputs[name], dtype=torch.float64) for name in names]
    loss = critic_rm_loss(*tensors, weight=inputs["lam"])
    return {"l_r": loss.reward, "l_c": loss.critique, "total": loss.total}


def _processbench_f1(inputs, expected):
    found = processbench_f1(inputs["step_scores"], inputs["labels"], threshold=inputs["threshold"])
    return {
        "predictions": found.predictions,
        "acc_error": found.acc_error,
        "acc_correct": found.acc_correct,
        "f1": found.f1,
    }


ADAPTERS = {
    "critic_rm_loss": _critic_rm_loss,
    "implicit_prm_ce_loss": _implicit_prm_ce_loss,
    "implicit_prm_dpo_loss": _implicit_prm_dpo_loss,
    "ppm_pairwise": _ppm_pairwise,
    "processbench_f1": _processbench_f1,
    "rstar_q": _rstar_q,
}
