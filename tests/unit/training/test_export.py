"""Nothing leaves training that serving would compute differently."""

import numpy as np
import pytest
import torch

from canopy.domain.errors import ArtifactError
from policy.selector import probabilities
from training.artifact_export import ProbeBatch, check_parity, export_policy
from training.head import TorchFactoredHead

FACTS = {
    "training_run_id": None,
    "data_hash": "d",
    "objective": "bc",
    "reward_spec": "logged",
    "lineage": {"corpora": ["train:d"]},
    "n_rows": 5,
    "synthetic": True,
}


class Tampered(TorchFactoredHead):
    """Exports other weights than it computes with."""

    def named_weights(self):
        weights = super().named_weights()
        weights["factor.1"][2, 0] += 1e-3
        return weights


def made(kind, known):
    head = kind(known.problem.shape)
    with torch.no_grad():
        head.table.copy_(torch.randn(head.table.shape, generator=torch.Generator().manual_seed(2)))
    return head


@pytest.fixture
def probe(known):
    rows = known.problem.validation.take(np.arange(64))
    return ProbeBatch(rows.context, rows.feasible)


def exported(head, folder, known, probe):
    return export_policy(
        head, folder, name="small", catalog=known.catalog, schema=known.schema,
        temperature=0.4, floor=0.05, facts=FACTS, probe=probe,
    )  # fmt: skip


def test_an_artifact_serves_what_was_trained(known, probe, tmp_path):
    head = made(TorchFactoredHead, known)
    artifact = exported(head, tmp_path, known, probe)
    features = torch.from_numpy(known.problem.validation_features[:64]).to(torch.float64)
    with torch.no_grad():
        logits = head.to(torch.float64)(features) / 0.4
        softmax = torch.softmax(
            logits.masked_fill(~torch.from_numpy(probe.feasible), -torch.inf), 1
        )
    share = probe.feasible / probe.feasible.sum(axis=1, keepdims=True)
    served = probabilities(artifact, probe.context, probe.feasible)
    np.testing.assert_allclose(served, 0.95 * softmax.numpy() + 0.05 * share, atol=1e-12)


def test_the_folder_is_named_after_the_policy(known, probe, tmp_path):
    head = made(TorchFactoredHead, known)
    artifact = exported(head, tmp_path, known, probe)
    assert artifact.folder == tmp_path / f"small-{artifact.policy_id[:12]}"
    assert exported(head, tmp_path, known, probe).folder == artifact.folder
    assert [path.name for path in tmp_path.iterdir()] == [artifact.folder.name]


def test_tampered_weights_are_refused_and_nothing_is_left(known, probe, tmp_path):
    with pytest.raises(ArtifactError, match="torch and serving differ in a logit"):
        exported(made(Tampered, known), tmp_path, known, probe)
    assert list(tmp_path.iterdir()) == []


def test_another_head_than_the_exported_one_is_refused(known, probe, tmp_path):
    artifact = exported(made(TorchFactoredHead, known), tmp_path, known, probe)
    with pytest.raises(ArtifactError, match="probe row 1: torch and serving differ"):
        check_parity(artifact, TorchFactoredHead(known.problem.shape), probe)


def test_weights_that_diverged_are_refused(known, probe, tmp_path):
    head = made(TorchFactoredHead, known)
    with torch.no_grad():
        head.table[0, 0] = torch.nan
    with pytest.raises(ArtifactError, match="NaN"):
        exported(head, tmp_path, known, probe)
    assert list(tmp_path.iterdir()) == []
