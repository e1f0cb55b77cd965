"""The experiments that classify sets of tokens: their data, their rows, and the choices that validation makes."""

import copy
import pickle
from dataclasses import replace

import pytest
import torch

from coordnet.bench import classification, series, token_sets
from coordnet.bench.attention_study import TASKS, Attention
from coordnet.bench.classification import CHOICE_SEED, Part, Row, Scaled, divergence
from coordnet.bench.records import Options, read
from coordnet.bench.runner import run
from coordnet.bench.series import Series, precision_recall_f1
from coordnet.bench.token_sets import RELATIONS, relation, scenes, split
from coordnet.encodings import JointEncoding
from coordnet.encodings.encoders import LearnableFourier
from coordnet.sampling import lattice_points

ROWS = [(task, row) for task in (TASKS[0], TASKS[2], Series.tasks[0]) for row in task.rows if row.name != "none"]
FIRST = {"rate": 3e-3, "norm": 2.0, "gamma": 1.0}


def parts_of(batch):
    """The tensors of some parts."""
    return [t for part in batch if part is not None for t in part]


@pytest.mark.parametrize(("task", "row"), ROWS, ids=lambda x: x.name)
def test_every_row_has_the_norm_that_it_is_given(task, row, generator):
    d = 4 if task.name == "boxes" else 1 if row.axes or task.name == "mean shift" else 2
    points = torch.rand(5, d, generator=generator)
    encoding = row.build(FIRST, torch.Generator().manual_seed(0))
    scaled = Scaled(encoding, points, 2.0).eval()
    assert float(scaled(points).detach().square().sum(-1).mean()) == pytest.approx(4.0, rel=1e-4)
    again = row.build(FIRST, torch.Generator().manual_seed(0)).eval()
    assert torch.equal(again(points), encoding(points))


def test_the_divergence_is_part_of_the_loss():
    """With α W moves where nothing else depends on it."""
    part = Part(torch.zeros(4, 3, 1), torch.rand(4, 3, 2), torch.zeros(4, dtype=torch.long))
    torch.manual_seed(0)
    encoder = LearnableFourier(2, 8, 1.0, fourier=8, hidden=0)
    assert float(divergence(JointEncoding(encoder)).detach()) == float(encoder.divergence().detach())
    assert divergence(None) == 0
    task = replace(TASKS[0], classes=1)  # with one class the cross-entropy is 0
    for alpha, moves in ((0.0, False), (1.0, True)):
        row = Row("x", lambda c, g: JointEncoding(copy.deepcopy(encoder)), alpha=alpha)
        net = classification.train(task, row, FIRST, part, seed=0, epochs=3)
        found = net.positioned.encoding.encoding.encoder.frequencies
        assert torch.equal(found, encoder.frequencies) is not moves


def test_relations_of_planted_boxes():
    b = torch.tensor([0.4, 0.4, 0.6, 0.6])
    a = {
        "inside": (0.45, 0.45, 0.55, 0.55),
        "around": (0.3, 0.3, 0.7, 0.7),
        "left of": (0.45, 0.1, 0.7, 0.3),
        "right of": (0.1, 0.7, 0.5, 0.9),
        "above": (0.1, 0.3, 0.2, 0.5),
        "below": (0.7, 0.5, 0.9, 0.9),
        None: (0.1, 0.1, 0.2, 0.2),  # to the left and above
    }
    found = relation(torch.tensor(list(a.values())), b.expand(len(a), 4)).tolist()
    assert [RELATIONS[i] if i >= 0 else None for i in found] == list(a)


def test_scenes_have_every_relation_equally_often():
    part = scenes(60, 3)
    assert torch.equal(relation(part.positions[:, 0], part.positions[:, 1]), part.labels)
    assert part.labels.bincount().tolist() == [10] * 6
    assert bool((part.positions[..., :2] < part.positions[..., 2:]).all())
    assert all(torch.equal(*pair) for pair in zip(part, scenes(60, 3), strict=True))
    assert not torch.equal(part.positions, scenes(60, 4).positions)


def test_the_halves_of_the_pixels_share_no_position(monkeypatch):
    data = torch.arange(10 * 64).reshape(10, 64, 1).float(), torch.arange(10)
    monkeypatch.setattr(token_sets, "digits", lambda: data)
    parts = token_sets.half_parts(1, ())
    seen, others = (part.positions[0] for part in (parts.test, parts.unseen))
    both = torch.cat([seen, others]).unique(dim=0)
    assert torch.equal(both, lattice_points(token_sets.SQUARE, torch.float32).flatten(0, -2))
    pixel = (parts.unseen.positions[0] * 8).long()
    assert torch.equal(parts.unseen.tokens[0, :, 0] % 64, (8 * pixel[:, 0] + pixel[:, 1]).float())
    assert torch.equal(parts.training.positions[0], seen)


def test_no_test_digit_trains_or_chooses():
    parts = [split(1797, seed) for seed in (0, 1, CHOICE_SEED)]
    for part in parts:
        _, validation, test = part
        assert torch.equal(test, parts[0][2])
        everything = torch.cat(part)
        assert torch.equal(everything.sort().values, torch.arange(1797))
        assert (len(validation), len(test)) == (359, 539)
    assert not torch.equal(parts[0][1], parts[1][1])


def test_anomalies_are_what_they_are_called(monkeypatch):
    """Without noise: one step, six neighbors, a straight line, a copy one step later, two rates of turning."""
    monkeypatch.setattr(series, "NOISE", 0.0)
    signal = {name: series.windows(name, 40, 5).tokens for name in series.SETS}
    steps = (signal["mean shift"][..., 0].diff() != 0).sum(1)
    assert steps[1::2].tolist() == [1] * 20 and int(steps[::2].min()) > 1
    spikes = signal["spike pattern"][..., 0] == 2
    assert spikes.sum(1).tolist() == [6] * 40
    assert bool((spikes[1::2].int().diff().abs().sum(1) <= 2).all())
    slope = signal["drift"][1::2, :, 0].diff(dim=1)
    assert torch.allclose(slope, slope[:, :1].expand_as(slope), atol=1e-6)
    normal = signal["drift"][::2, :, 0].abs().sort().values
    assert torch.allclose(normal, signal["drift"][1::2, :, 0].abs().sort().values, atol=1e-6)
    first, second = signal["lagged copy"][1::2].unbind(-1)
    assert torch.equal(second, first.roll(1, 1))
    turns = signal["frequency change"][..., 0].sign().diff(dim=1).ne(0)
    early, late = turns[:, :15].sum(1), turns[:, 16:].sum(1)
    assert bool((late[1::2] > early[1::2] + 3).all()) and bool(((late - early)[::2].abs() <= 1).all())


def test_precision_recall_and_f1_of_planted_guesses():
    """Two of three finds are true, and two of four anomalies are found."""
    true = torch.tensor([1, 1, 1, 1, 0, 0, 0]).bool()
    found = torch.tensor([1, 1, 0, 0, 1, 0, 0]).bool()
    assert precision_recall_f1(found, true) == pytest.approx((2 / 3, 1 / 2, 4 / 7))
    assert precision_recall_f1(found & ~found, true) == (0, 0, 0)


@pytest.fixture
def short(monkeypatch):
    """Few digits and few rows."""
    pytest.importorskip("sklearn", reason="needs the extra 'attention'")
    data = token_sets.digits()
    assert data[0].shape == (1797, 64, 1)
    assert float(data[0].max()) == 1
    small = data[0][:30], data[1][:30]
    monkeypatch.setattr(token_sets, "digits", lambda: small)
    names = ("none", "learnable Fourier")
    rows = [tuple(row for row in task.rows if row.name in names) for task in TASKS[:2]]
    tasks = [replace(task, rows=kept) for task, kept in zip(TASKS, rows, strict=False)]
    monkeypatch.setattr(Attention, "tasks", tasks)
    return tasks


def test_choices_are_made_by_validation(short, tmp_path, monkeypatch):
    """One epoch of every encoding: its choices are made by validation, the rest is scored and written whole."""
    study, options = Attention(), Options(seeds=1, epochs=1)
    assert all(pickle.loads(pickle.dumps(cell.work)) for cell in next(study.stages(options, {})))
    assert run(study, options, tmp_path, progress=False) == (3 + 7 + 2 + 1, 0)
    records = [r for r in read(tmp_path).values() if r["cell"]["task"] == "digits"]
    tried = [r for r in records if r["cell"]["seed"] == CHOICE_SEED]
    reported = [r for r in records if r["cell"]["seed"] == 0]
    assert all("test" not in r["scores"] for r in tried)
    assert [r["cell"]["method"]["name"] for r in reported] == [row.name for row in short[0].rows]
    for r in reported:
        method = r["cell"]["method"]
        own = [t for t in tried if t["cell"]["method"]["name"] == method["name"]]
        chosen = next(t for t in own if t["cell"]["method"] == method)
        last = [t for t in own if t["cell"]["method"]["rate"] == method["rate"]]
        assert chosen["scores"]["validation"] == max(t["scores"]["validation"] for t in last)
        assert 0 <= r["scores"]["test"] <= 1
    half = [r for r in read(tmp_path).values() if r["cell"]["task"] == "half of the pixels"]
    assert [r["cell"]["method"] for r in half] == [r["cell"]["method"] for r in reported[1:]]
    assert all(0 <= r["scores"]["unseen"] <= 1 for r in half)
    table = study.contents([*records, *half])[".md"]
    assert all(f"| {row.name} |" in table for row in short[0].rows)
    assert "accuracy at unseen positions" in table
    monkeypatch.setattr(classification, "train", None)  # a finished run trains nothing
    assert run(study, options, tmp_path, progress=False)[1] == 0
